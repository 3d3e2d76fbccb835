#include "sim/network.h"

#include <algorithm>

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kFast = milliseconds(1);
constexpr Duration kSlow = milliseconds(20);
constexpr Duration kLate = seconds(40);              // at most; well beyond the moment of giving up
constexpr Duration kEcho = std::chrono::minutes(5);  // likewise: attempts may have ended by then
constexpr Duration kPatience = seconds(10);          // of the agent, as platform/agent has it

}  // namespace

Cut Network::cut_of(const std::string& host) const {
  const auto found = cuts_.find(host);
  return found == cuts_.end() ? Cut::none : found->second;
}

// Words that are doubled must do no harm; those that are lost or late may cost the run an attempt.
Duration Network::delay(const NodeReport& report) {
  if (!dice_.percent(weather_.late)) return dice_.from_to(kFast, kSlow);
  const Duration delay = straggle(dice_.from_to(kSlow, kLate));
  truth_.touch({report.generation, report.node.attempt});
  scene_.tell("network", "a word between {} and the daemon takes {}", text(report.node),
              text(delay));
  return delay;
}

Duration Network::straggle(Duration delay) {
  straggler_ = std::max(straggler_, scene_.timeline.now() + delay);
  return delay;
}

bool Network::is_well() const {
  const bool fair = weather_.lost == 0 && weather_.doubled == 0 && weather_.late == 0;
  return fair && !mute_ && cuts_.empty() && scene_.timeline.now() >= straggler_;
}

void Network::lose(const NodeReport& report, std::string_view what) {
  truth_.touch({report.generation, report.node.attempt});
  scene_.tell("network", "{} {} is lost", what, text(report.node));
}

void Network::call(const std::string& host, const NodeReport& report, Hear hear) {
  const CallId call = ++calls_;
  waiting_.emplace(call, std::move(hear));
  answer_later(call, kPatience, Error{Code::timeout, "no answer"});
  if (dice_.percent(weather_.lost)) return lose(report, "a word of");
  const auto deliver_later = [&](Duration after) {
    scene_.timeline.after(after, [=, this] { deliver(call, host, report); });
  };
  deliver_later(delay(report));
  if (dice_.percent(weather_.doubled)) deliver_later(straggle(dice_.from_to(kFast, kEcho)));
}

void Network::deliver(CallId call, const std::string& host, const NodeReport& report) {
  const Cut cut = cut_of(host);
  if (cut == Cut::words || cut == Cut::both) return lose(report, "a word of");
  daemon_.when_free([=, this] { hand_over(call, host, report); });
}

void Network::hand_over(CallId call, const std::string& host, const NodeReport& report) {
  truth_.said(report);
  const Duration arrived = scene_.timeline.now();
  auto answer = daemon_.report(report);  // which may take its time
  if (answer) truth_.taken(report, arrived);
  if (answer) truth_.answered(report, *answer);
  const Cut cut = cut_of(host);
  if (cut == Cut::answers || dice_.percent(weather_.lost)) return lose(report, "the answer to");
  if (mute_) return scene_.tell("network", "the answer to {} is lost", text(report.node));
  answer_later(call, delay(report), std::move(answer));
}

void Network::answer_later(CallId call, Duration delay, Result<Command> answer) {
  scene_.timeline.after(delay, [this, call, answer = std::move(answer)] {
    const auto found = waiting_.find(call);
    if (found == waiting_.end()) return;
    const Hear hear = std::move(found->second);
    waiting_.erase(found);
    hear(answer);
  });
}

}  // namespace lockstep::sim
