#include "sim/faults/network.h"

#include <algorithm>

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kFast = milliseconds(1);
constexpr Duration kSlow = milliseconds(20);
constexpr Duration kReportDelayMax = seconds(40);  // at most; well beyond the moment of giving up
constexpr Duration kDuplicateDelayMax =
    std::chrono::minutes(5);                     // likewise: attempts may have ended by then
constexpr Duration kAgentTimeout = seconds(10);  // of the agent, as platform/agent has it
constexpr int kGivenUpPercent = 85;              // of the calls, while the daemon is too slow

}  // namespace

NetworkPartition Network::partition_of(const std::string& host) const {
  const auto found = partitions_.find(host);
  return found == partitions_.end() ? NetworkPartition::none : found->second;
}

// Duplicated messages must do no harm; lost or late ones may cost the run an attempt.
Duration Network::delay(const Exchange& exchange) {
  if (!random_.percent(faults_.delayed_percent)) return random_.from_to(kFast, kSlow);
  const Duration delay = track_late_message(random_.from_to(kSlow, kReportDelayMax));
  exchange.on_disturbance();
  context_.trace("network", "a word between {} and the daemon takes {}", exchange.caller,
                 text(delay));
  return delay;
}

Duration Network::track_late_message(Duration delay) {
  late_until_ = std::max(late_until_, context_.timeline.now() + delay);
  return delay;
}

bool Network::is_well() const {
  const bool fair =
      faults_.lost_percent == 0 && faults_.duplicated_percent == 0 && faults_.delayed_percent == 0;
  return fair && !answers_lost_ && !is_cut_off() && !daemon_is_slow_ && partitions_.empty() &&
         context_.timeline.now() >= late_until_;
}

void Network::drop(const Exchange& exchange, std::string_view what) {
  exchange.on_disturbance();
  context_.trace("network", "{} {} is lost", what, exchange.caller);
}

void Network::call(const std::string& host, const model::NodeReport& report, OnAnswer hear) {
  exchange(host, {.caller = context_.traced() ? text(report.node) : std::string(),
                  .on_disturbance =
                      [this, attempt = model::AttemptName{report.generation, report.node.attempt}] {
                        truth_.mark_disturbed(attempt);
                      },
                  .handle = [this, report, hear] { return handle_report(report, hear); },
                  .fail = hear});
}

std::function<void()> Network::handle_report(const model::NodeReport& report,
                                             const OnAnswer& hear) {
  truth_.report_arrived(report);
  const Duration arrived = context_.timeline.now();
  auto answer = daemon_(report);
  if (answer) truth_.report_accepted(report, arrived);
  if (answer) truth_.check_answer(report, *answer);
  return [hear, answer = std::move(answer)] { hear(answer); };
}

void Network::exchange(const std::string& host, Exchange exchange) {
  const CallId call = ++calls_;
  pending_calls_.insert(call);
  const auto shared = std::make_shared<const Exchange>(std::move(exchange));
  answer_later(call, kAgentTimeout, [shared] { shared->fail({Code::timeout, "no answer"}); });
  if (random_.percent(faults_.lost_percent)) return drop(*shared, "a word of");
  const auto deliver_later = [&](Duration after) {
    context_.timeline.after(after, [=, this] { deliver(call, host, shared); });
  };
  deliver_later(delay(*shared));
  if (random_.percent(faults_.duplicated_percent))
    deliver_later(track_late_message(random_.from_to(kFast, kDuplicateDelayMax)));
}

void Network::deliver(CallId call, const std::string& host, const SharedExchange& exchange) {
  const NetworkPartition cut = partition_of(host);
  if (cut == NetworkPartition::reports || cut == NetworkPartition::both)
    return drop(*exchange, "a word of");
  if (cut_off_.contains(host)) return;
  if (daemon_is_slow_ && random_.percent(kGivenUpPercent)) return;
  auto answer = exchange->handle();
  if (cut == NetworkPartition::answers || random_.percent(faults_.lost_percent))
    return drop(*exchange, "the answer to");
  if (cut_off_.contains(host)) return;
  if (answers_lost_) return context_.trace("network", "the answer to {} is lost", exchange->caller);
  const Duration turn = daemon_is_slow_ ? random_.from_to(kFast, kAgentTimeout) : Duration(0);
  answer_later(call, turn + delay(*exchange), std::move(answer));
}

void Network::answer_later(CallId call, Duration delay, std::function<void()> answer) {
  context_.timeline.after(delay, [this, call, answer = std::move(answer)] {
    if (pending_calls_.erase(call) > 0) answer();
  });
}

}  // namespace lockstep::sim
