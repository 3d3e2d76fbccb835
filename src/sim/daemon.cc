#include "sim/daemon.h"

namespace lockstep::sim {
namespace {

constexpr Duration kTick = std::chrono::seconds(1);
constexpr Duration kStartAgain = std::chrono::seconds(5);  // after a start that failed

}  // namespace

void Daemon::start() {
  life_.begin_again();
  awake_ = Duration(0);
  auto opened = Controller::open(setup_);
  if (opened) controller_ = *std::move(opened);
  if (buried()) return;
  if (!controller_) {
    scene_.tell("daemon", "cannot start: {}", opened.error().message);
    scene_.timeline.after(kStartAgain, [this] { start(); });
    return;
  }
  scene_.tell("daemon", "serves");
  tick(++lives_);
}

// After each call into the controller: drops one that died in it, and has another started.
bool Daemon::buried() {
  if (life_.alive()) return false;
  controller_.reset();
  const Duration absence = absence_();
  scene_.tell("daemon", "stays away for {}", text(absence));
  scene_.timeline.after(absence, [this] { start(); });
  return true;
}

void Daemon::die(const std::string& where) {
  if (!controller_) return;
  life_.die(where);
  buried();
}

void Daemon::stand_still(Duration duration) { awake_ = scene_.timeline.now() + duration; }

void Daemon::tick(std::int64_t life) {
  if (!controller_ || life != lives_) return;
  if (serves()) {
    controller_->tick();
    if (buried()) return;
    if (look_) look_();
  }
  scene_.timeline.after(kTick, [this, life] { tick(life); });
}

template <class Act>
auto Daemon::serve(Act act) -> decltype(act(std::declval<Controller&>())) {
  if (!serves()) return Error{Code::unavailable, "the daemon does not answer"};
  auto result = act(*controller_);
  if (buried()) return Error{Code::unavailable, "the daemon is gone"};
  return result;
}

Result<Command> Daemon::report(const NodeReport& report) {
  return serve([&](Controller& controller) { return controller.report(report); });
}

Result<RunId> Daemon::submit(const RunSpec& spec) {
  return serve([&](Controller& controller) { return controller.submit(spec, {}); });
}

Result<void> Daemon::stop(const RunId& run) {
  return serve([&](Controller& controller) { return controller.stop(run, "enough"); });
}

Result<void> Daemon::resume(const RunId& run) {
  return serve([&](Controller& controller) { return controller.resume(run); });
}

}  // namespace lockstep::sim
