// Daemon: the real Controller with what surrounds it in the real daemon: a tick, callers, death and
// a service manager that starts it again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platform/controller/controller.h"
#include "sim/dice.h"
#include "sim/life.h"

namespace lockstep::sim {

class Daemon {
 public:
  // How long it stays away after it has died.
  using Absence = std::function<Duration()>;

  Daemon(Scene& scene, Life& life, ControllerSetup setup, Absence absence)
      : scene_(scene), life_(life), setup_(std::move(setup)), absence_(std::move(absence)) {}

  void start();
  // At once: also while it waits for its engine.
  void die(const std::string& where);
  // It stands still for that long, as on a machine that sleeps: nobody is answered.
  void stand_still(Duration duration);
  bool serves() const {
    return controller_ != nullptr && !busy_ && scene_.timeline.now() >= awake_;
  }
  // Null while it is dead.
  const State* state() const { return controller_ ? &controller_->state() : nullptr; }
  const Queue* queue() const { return controller_ ? &controller_->queue() : nullptr; }

  // At once, or when a call that is under way has returned: so long an agent that has connected
  // waits for its answer.
  void when_free(std::function<void()> act);
  // As a client calls them: while nobody serves, or when the daemon dies over it, an error comes
  // back, and whether it was done is open.
  Result<Command> report(const NodeReport& report);
  Result<RunId> submit(const RunSpec& spec, const std::string& request_id, const Origin& by = {});
  Result<void> stop(const RunId& run);
  Result<void> resume(const RunId& run);
  // As Controller::change().
  Result<void> change(const Event& event);

  // Called after each tick that took no time, so that all that was due is decided, of a daemon that
  // knows what runs.
  void on_tick(std::function<void()> look) { look_ = std::move(look); }

 private:
  template <class Act>
  auto serve(Act act) -> decltype(act(std::declval<Controller&>()));
  // A call into the controller, during which nobody else is served.
  template <class Act>
  auto keep_busy(Act act) -> decltype(act());
  void let_in();
  bool buried();
  void tick(std::int64_t life);
  void go_on(std::int64_t life);

  Scene& scene_;
  Life& life_;
  const ControllerSetup setup_;
  const Absence absence_;
  std::function<void()> look_;
  std::unique_ptr<Controller> controller_;
  Duration awake_{};   // from this moment on
  bool busy_ = false;  // a call into the controller has not returned
  std::vector<std::function<void()>> waiting_;
  std::int64_t lives_ = 0;  // ticks of earlier ones are void
};

}  // namespace lockstep::sim
