#include "sim/world/daemon.h"

#include <algorithm>
#include <utility>

namespace lockstep::sim {
namespace {

constexpr Duration kTick = std::chrono::seconds(1);
// After a tick that took long: users whose calls failed meanwhile may call again.
constexpr Duration kDelayAfterLongTick = std::chrono::seconds(2);
constexpr Duration kRestartDelay = std::chrono::seconds(5);  // after a start that failed

// Sets the flag for its lifetime.
class BusyGuard {
 public:
  BusyGuard(bool& mark, std::function<void()> over) : mark_(mark), over_(std::move(over)) {
    mark_ = true;
  }
  ~BusyGuard() {
    mark_ = false;
    over_();
  }
  BusyGuard(const BusyGuard&) = delete;
  BusyGuard& operator=(const BusyGuard&) = delete;

 private:
  bool& mark_;
  const std::function<void()> over_;
};

}  // namespace

void Daemon::start() {
  crash_points_.restart();
  suspended_until_ = Duration(0);
  auto opened = run_busy([this] { return controller::Controller::open(setup_); });
  const std::string complaint = opened ? "" : opened.error().message;
  if (opened) controller_ = *std::move(opened);
  if (restart_if_crashed()) return;
  if (!controller_) {
    context_.trace("daemon", "cannot start: {}", complaint);
    context_.timeline.after(kRestartDelay, [this] { start(); });
    return;
  }
  context_.trace("daemon", "serves");
  tick(++incarnation_);
}

// Call after each call into the controller: drops a controller that crashed, and schedules its
// restart.
bool Daemon::restart_if_crashed() {
  if (crash_points_.alive()) return false;
  controller_.reset();
  const Duration downtime = downtime_();
  context_.trace("daemon", "stays away for {}", text(downtime));
  context_.timeline.after(downtime, [this] { start(); });
  return true;
}

void Daemon::crash(const std::string& where) {
  if (!crash_points_.alive() || !(controller_ || busy_)) return;
  crash_points_.crash(where);
  if (!busy_) restart_if_crashed();
}

template <class Act>
auto Daemon::run_busy(Act act) -> decltype(act()) {
  const BusyGuard busy(busy_, [this] { run_waiting(); });
  return act();
}

// Runs the waiting acts in order, before any other action of this moment: the first may make it
// busy again.
void Daemon::run_waiting() {
  for (auto& act : std::exchange(waiting_, {}))
    context_.timeline.after(Duration(0), [this, act = std::move(act)] { when_free(act); });
}

void Daemon::when_free(std::function<void()> act) {
  if (!busy_) return act();
  waiting_.push_back(std::move(act));
}

void Daemon::suspend(Duration duration) { suspended_until_ = context_.timeline.now() + duration; }

void Daemon::tick(std::int64_t life) {
  if (!controller_ || life != incarnation_) return;
  bool took_time = false;
  if (is_serving()) {
    const Duration began = context_.timeline.now();
    run_busy([this] { controller_->tick(); });
    if (restart_if_crashed()) return;
    took_time = context_.timeline.now() != began;
    if (on_tick_ && !took_time && controller_->is_ready()) on_tick_();
    act_on_decisions(life);
  }
  const Duration pause = std::max(turn_time_, took_time ? kDelayAfterLongTick : kTick);
  context_.timeline.after(pause, [this, life] { tick(life); });
}

// Executes the decided effects in slices.
void Daemon::act_on_decisions(std::int64_t life) {
  context_.timeline.after(Duration(0), [this, life] {
    if (!controller_ || life != incarnation_ || !is_serving()) return;
    const bool more = run_busy([this] { return controller_->execute_effects(); });
    if (!restart_if_crashed() && more) act_on_decisions(life);
  });
}

template <class Act>
auto Daemon::call_controller(Act act) -> decltype(act(std::declval<controller::Controller&>())) {
  if (!is_serving()) return Error{Code::unavailable, "the daemon does not answer"};
  auto result = run_busy([&] { return act(*controller_); });
  if (restart_if_crashed()) return Error{Code::unavailable, "the daemon is gone"};
  return result;
}

Result<model::Command> Daemon::report(const model::NodeReport& report) {
  return call_controller(
      [&](controller::Controller& controller) { return controller.report(report); });
}

Result<model::RunId> Daemon::submit(const model::RunSpec& spec, const std::string& request_id,
                                    const model::Origin& by) {
  return call_controller(
      [&](controller::Controller& controller) { return controller.submit(spec, by, request_id); });
}

Result<void> Daemon::stop(const model::RunId& run) {
  return call_controller(
      [&](controller::Controller& controller) { return controller.stop(run, "enough"); });
}

Result<void> Daemon::resume(const model::RunId& run) {
  return call_controller(
      [&](controller::Controller& controller) { return controller.resume(run); });
}

Result<void> Daemon::change(const model::Event& event) {
  return call_controller(
      [&](controller::Controller& controller) { return controller.apply_operator_event(event); });
}

}  // namespace lockstep::sim
