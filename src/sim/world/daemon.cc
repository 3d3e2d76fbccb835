#include "sim/world/daemon.h"

#include <algorithm>
#include <utility>

namespace lockstep::sim {
namespace {

constexpr Duration kTick = std::chrono::seconds(1);
constexpr Duration kRestartDelay = std::chrono::seconds(5);  // after a start that failed

}  // namespace

void Daemon::start() {
  crash_points_.restart();
  suspended_until_ = Duration(0);
  auto opened = controller::Controller::open(setup_);
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
  if (!controller_) return;
  if (crash_points_.alive()) crash_points_.crash(where);
  restart_if_crashed();
}

void Daemon::suspend(Duration duration) { suspended_until_ = context_.timeline.now() + duration; }

void Daemon::tick(std::int64_t life) {
  if (!controller_ || life != incarnation_) return;
  if (is_serving()) {
    controller_->tick();
    if (restart_if_crashed()) return;
    if (on_tick_ && controller_->is_ready()) on_tick_();
    act_on_decisions(life);
  }
  context_.timeline.after(std::max(turn_time_, kTick), [this, life] { tick(life); });
}

// Executes the decided effects in slices.
void Daemon::act_on_decisions(std::int64_t life) {
  context_.timeline.after(Duration(0), [this, life] {
    if (!controller_ || life != incarnation_ || !is_serving()) return;
    const bool more = controller_->execute_effects();
    if (!restart_if_crashed() && more) act_on_decisions(life);
  });
}

template <class Act>
auto Daemon::call_controller(Act act) -> decltype(act(std::declval<controller::Controller&>())) {
  if (!is_serving()) return Error{Code::unavailable, "the daemon does not answer"};
  auto result = act(*controller_);
  if (restart_if_crashed()) return Error{Code::unavailable, "the daemon is gone"};
  return result;
}

Result<model::Command> Daemon::report(const model::NodeReport& report) {
  return call_controller(
      [&](controller::Controller& controller) { return controller.report(report); });
}

Result<model::RunId> Daemon::submit(const model::RunSpec& spec, const std::string& request_id,
                                    const model::Origin& by, model::ProjectKind kind) {
  return call_controller([&](controller::Controller& controller) {
    return controller.submit(spec, by, request_id, {}, kind);
  });
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

Result<api::ServiceOrders> Daemon::take_host_report(engine::HostsEngine& engine,
                                                    const std::string& host, int credential,
                                                    const api::ServiceReport& report) {
  return call_controller([&](controller::Controller& controller) -> Result<api::ServiceOrders> {
    const auto row = controller.state().hosts.find(host);
    if (row == controller.state().hosts.end() || !model::has_joined(row->second) ||
        row->second.credential != credential)
      return Error{Code::denied, "the credential is void"};
    controller::take_host_report(controller, engine, host, report);
    return engine.orders(host);
  });
}

Result<void> Daemon::remove_host(engine::HostsEngine& engine, const model::RemoveHost& removal) {
  return call_controller([&](controller::Controller& controller) {
    return controller::remove_host(controller, engine, removal, {});
  });
}

}  // namespace lockstep::sim
