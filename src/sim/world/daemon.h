// Daemon: the real Controller with the environment that the real daemon gives it: ticks, callers,
// crashes and a service manager that restarts it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "platform/controller/host_reports.h"
#include "sim/faults/crash_points.h"
#include "sim/faults/seeded_random.h"

namespace lockstep::sim {

class Daemon {
 public:
  // The time between a crash and the restart.
  using Downtime = std::function<Duration()>;

  Daemon(SimContext& context, CrashPoints& crash_points, controller::ControllerSetup setup,
         Downtime downtime)
      : context_(context),
        crash_points_(crash_points),
        setup_(std::move(setup)),
        downtime_(std::move(downtime)) {}

  void start();
  void crash(const std::string& where);
  // Suspends the daemon for that long, as on a machine that sleeps: it answers no call.
  void suspend(Duration duration);
  // The time between two ticks, if that is longer than usual.
  void set_turn_time(Duration turn) { turn_time_ = turn; }
  bool is_serving() const {
    return controller_ != nullptr && context_.timeline.now() >= suspended_until_;
  }
  // Null while the daemon is dead.
  const model::State* state() const { return controller_ ? &controller_->state() : nullptr; }
  const step::IncrementalScheduler* queue() const {
    return controller_ ? &controller_->scheduler() : nullptr;
  }

  // A client's calls. They return an error while the daemon does not serve or if it crashes during
  // the call. After an error the call may or may not have taken effect.
  Result<model::Command> report(const model::NodeReport& report);
  Result<model::RunId> submit(const model::RunSpec& spec, const std::string& request_id,
                              const model::Origin& by = {},
                              model::ProjectKind kind = model::ProjectKind::shared);
  Result<void> stop(const model::RunId& run);
  Result<void> resume(const model::RunId& run);
  // As Controller::apply_operator_event().
  Result<void> change(const model::Event& event);
  // The report of a host that joins, with the number of its credential; Code::denied if that is
  // void.
  Result<api::ServiceOrders> take_host_report(engine::HostsEngine& engine, const std::string& host,
                                              int credential, const api::ServiceReport& report);
  Result<void> remove_host(engine::HostsEngine& engine, const model::RemoveHost& removal);

  // Called after each tick, so that all due decisions are made, if the daemon knows which agents
  // run.
  void on_tick(std::function<void()> look) { on_tick_ = std::move(look); }

 private:
  template <class Act>
  auto call_controller(Act act) -> decltype(act(std::declval<controller::Controller&>()));
  bool restart_if_crashed();
  void tick(std::int64_t crash_points);
  void act_on_decisions(std::int64_t crash_points);

  SimContext& context_;
  CrashPoints& crash_points_;
  const controller::ControllerSetup setup_;
  const Downtime downtime_;
  std::function<void()> on_tick_;
  std::unique_ptr<controller::Controller> controller_;
  Duration suspended_until_{};  // from this moment on
  Duration turn_time_{};
  std::int64_t incarnation_ = 0;  // ticks of earlier ones are void
};

}  // namespace lockstep::sim
