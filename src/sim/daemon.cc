#include "sim/daemon.h"

#include <utility>

namespace lockstep::sim {
namespace {

constexpr Duration kTick = std::chrono::seconds(1);
// After a tick that took long: users who called in vain meanwhile may call again.
constexpr Duration kCatchUp = std::chrono::seconds(2);
constexpr Duration kStartAgain = std::chrono::seconds(5);  // after a start that failed

// Sets the mark for as long as it lives.
class Busy {
 public:
  Busy(bool& mark, std::function<void()> over) : mark_(mark), over_(std::move(over)) {
    mark_ = true;
  }
  ~Busy() {
    mark_ = false;
    over_();
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  bool& mark_;
  const std::function<void()> over_;
};

}  // namespace

void Daemon::start() {
  life_.begin_again();
  awake_ = Duration(0);
  auto opened = keep_busy([this] { return Controller::open(setup_); });
  const std::string complaint = opened ? "" : opened.error().message;
  if (opened) controller_ = *std::move(opened);
  if (buried()) return;
  if (!controller_) {
    scene_.tell("daemon", "cannot start: {}", complaint);
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
  if (!life_.alive() || !(controller_ || busy_)) return;
  life_.die(where);
  if (!busy_) buried();
}

template <class Act>
auto Daemon::keep_busy(Act act) -> decltype(act()) {
  const Busy busy(busy_, [this] { let_in(); });
  return act();
}

// In turns, before anything else that is done at this moment: the first may keep it busy again.
void Daemon::let_in() {
  for (auto& act : std::exchange(waiting_, {}))
    scene_.timeline.after(Duration(0), [this, act = std::move(act)] { when_free(act); });
}

void Daemon::when_free(std::function<void()> act) {
  if (!busy_) return act();
  waiting_.push_back(std::move(act));
}

void Daemon::stand_still(Duration duration) { awake_ = scene_.timeline.now() + duration; }

void Daemon::tick(std::int64_t life) {
  if (!controller_ || life != lives_) return;
  bool took_time = false;
  if (serves()) {
    const Duration began = scene_.timeline.now();
    keep_busy([this] { controller_->tick(); });
    if (buried()) return;
    took_time = scene_.timeline.now() != began;
    if (look_ && !took_time && controller_->is_ready()) look_();
    go_on(life);
  }
  scene_.timeline.after(took_time ? kCatchUp : kTick, [this, life] { tick(life); });
}

// Does what was decided, in turns.
void Daemon::go_on(std::int64_t life) {
  scene_.timeline.after(Duration(0), [this, life] {
    if (!controller_ || life != lives_ || !serves()) return;
    const bool more = keep_busy([this] { return controller_->act(); });
    if (!buried() && more) go_on(life);
  });
}

template <class Act>
auto Daemon::serve(Act act) -> decltype(act(std::declval<Controller&>())) {
  if (!serves()) return Error{Code::unavailable, "the daemon does not answer"};
  auto result = keep_busy([&] { return act(*controller_); });
  if (buried()) return Error{Code::unavailable, "the daemon is gone"};
  return result;
}

Result<Command> Daemon::report(const NodeReport& report) {
  return serve([&](Controller& controller) { return controller.report(report); });
}

Result<RunId> Daemon::submit(const RunSpec& spec, const std::string& request_id, const Origin& by) {
  return serve([&](Controller& controller) { return controller.submit(spec, by, request_id); });
}

Result<void> Daemon::stop(const RunId& run) {
  return serve([&](Controller& controller) { return controller.stop(run, "enough"); });
}

Result<void> Daemon::resume(const RunId& run) {
  return serve([&](Controller& controller) { return controller.resume(run); });
}

Result<void> Daemon::change(const Event& event) {
  return serve([&](Controller& controller) { return controller.change(event); });
}

}  // namespace lockstep::sim
