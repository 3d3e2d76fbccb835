#include "comm/flight/diagnosis/diagnosis.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/format.h"
#include "comm/flight/diagnosis/flight_text.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kWaitsShown = 4;

// The position of a rank: the newest collective that it entered, or none.
struct RankPosition {
  const FlightLog* log;
  const FlightOperation* at;

  std::uint64_t sequence() const { return at == nullptr ? 0 : at->sequence; }
  bool is_waiting() const { return at != nullptr && at->wait; }
  bool is_inside() const { return at != nullptr && at->state != FlightState::done; }
};
using RankPositions = std::vector<RankPosition>;

RankPositions rank_positions(const FlightGroup& group) {
  RankPositions positions;
  for (const FlightLog& log : group.logs) positions.push_back({&log, newest_entered(log)});
  return positions;
}

template <class TensorRead>
RankPositions filter_positions(const RankPositions& all, TensorRead wanted) {
  RankPositions found;
  std::ranges::copy_if(all, std::back_inserter(found), wanted);
  return found;
}

std::string ranks_of(const RankPositions& positions) {
  std::vector<int> ranks;
  for (const RankPosition& position : positions) ranks.push_back(position.log->rank);
  return ranks_text(ranks);
}

std::string_view verb(const RankPositions& positions, std::string_view one,
                      std::string_view several) {
  return positions.size() == 1 ? one : several;
}

bool match(const FlightOperation& a, const FlightOperation& b) {
  const auto essence = [](const FlightOperation& call) {
    return std::tie(call.name, call.type, call.reduction, call.bytes, call.root);
  };
  return essence(a) == essence(b);
}

std::string wait_text(const FlightWait& wait) {
  return format("waiting for rank {} {}", wait.peer, text(wait.reason));
}

// " in #810 barrier, waiting for rank 0 to send data"
std::string last_activity_text(const RankPosition& position) {
  if (position.at == nullptr) return " before its first collective";
  const auto call = short_call_text(*position.at);
  if (position.at->state == FlightState::done) return format(" after {}", call);
  const auto failed = position.at->state == FlightState::failed ? ", which failed" : "";
  const auto wait = position.at->wait ? ", " + wait_text(*position.at->wait) : "";
  return format(" in {}{}{}", call, wait, failed);
}

// The call with this sequence number, from any rank that recorded it.
std::string call_at(const FlightGroup& group, std::uint64_t sequence) {
  for (const FlightLog& log : group.logs)
    for (const FlightOperation& operation : log.operations)
      if (operation.is_collective() && operation.sequence == sequence)
        return short_call_text(operation);
  return format("#{}", sequence);
}

// A rank that is behind and waits for another is rather a victim than the cause.
RankPositions likely_causes(const RankPositions& behind) {
  auto idle =
      filter_positions(behind, [](const RankPosition& position) { return !position.is_waiting(); });
  return idle.empty() ? behind : idle;
}

std::string describe_divergence(const FlightGroup& group, const RankPositions& all,
                                std::uint64_t least, std::uint64_t most, FlightTime now) {
  const auto ahead =
      filter_positions(all, [&](const RankPosition& one) { return one.sequence() == most; });
  const auto behind = likely_causes(
      filter_positions(all, [&](const RankPosition& one) { return one.sequence() == least; }));
  const auto front = format("{} {} at {}", ranks_of(ahead), verb(ahead, "is", "are"),
                            short_call_text(*ahead.front().at));
  const auto late = format("{} {} not entered {}", ranks_of(behind), verb(behind, "has", "have"),
                           call_at(group, least + 1));
  const auto& first = behind.front();
  const auto seen = format("last seen {} ago{}", duration_text(now - first.log->last_seen()),
                           last_activity_text(first));
  return format("{}; {}, {}{}{}", front, late,
                behind.size() == 1 ? "" : format("rank {} ", first.log->rank), seen,
                process_text(*first.log));
}

Nanoseconds waited(const RankPosition& one, FlightTime now) {
  return one.at->ended.value_or(now) - one.at->wait->since;
}

// "ranks 0 and 2 wait for rank 1 to send data (31s)"
std::string wait_of(const RankPositions& waiters, FlightTime now) {
  Nanoseconds longest{};
  for (const RankPosition& one : waiters) longest = std::max(longest, waited(one, now));
  const bool over = waiters.front().at->ended.has_value();
  const FlightWait& wait = *waiters.front().at->wait;
  return format("{} {} for rank {} {} ({})", ranks_of(waiters),
                over ? "waited" : verb(waiters, "waits", "wait"), wait.peer, text(wait.reason),
                duration_text(longest));
}

std::string waits_text(const RankPositions& inside, FlightTime now) {
  std::map<std::pair<int, WaitReason>, RankPositions> by_wait;
  for (const RankPosition& one : inside)
    if (one.is_waiting()) by_wait[{one.at->wait->peer, one.at->wait->reason}].push_back(one);
  std::vector<std::string> waits;
  for (const auto& [wait, waiters] : by_wait)
    if (waits.size() < kWaitsShown) waits.push_back(wait_of(waiters, now));
  return joined(waits, ", ");
}

// act: the last activity of the first of them.
std::string idle_text(const RankPositions& idle, std::string_view act, FlightTime now) {
  const auto& log = *idle.front().log;
  return format("{} {} for no rank{}, last seen {} ago{}{}", ranks_of(idle),
                verb(idle, "waits", "wait"), idle.size() == 1 ? "" : format("; rank {}", log.rank),
                duration_text(now - log.last_seen()), act, process_text(log));
}

std::string all_ended(const RankPositions& all, FlightTime now) {
  FlightTime last;
  for (const RankPosition& one : all) last = std::max(last, one.at->ended.value_or(last));
  return format("{} {} ended {}, the last {} ago; nothing is under way", ranks_of(all),
                verb(all, "has", "have"), short_call_text(*all.front().at),
                duration_text(now - last));
}

// Empty when all have completed it.
std::string describe_common_call(const RankPositions& all, FlightTime now) {
  const auto inside =
      filter_positions(all, [](const RankPosition& one) { return one.is_inside(); });
  if (inside.empty()) return {};
  const bool failed = std::ranges::all_of(
      inside, [](const RankPosition& one) { return one.at->state == FlightState::failed; });
  std::vector<std::string> parts;
  if (auto waits = waits_text(inside, now); !waits.empty()) parts.push_back(std::move(waits));
  const auto idle =
      filter_positions(inside, [](const RankPosition& one) { return !one.is_waiting(); });
  if (!idle.empty()) parts.push_back(idle_text(idle, "", now));
  const auto over = filter_positions(all, [](const RankPosition& one) { return !one.is_inside(); });
  if (!over.empty())
    parts.push_back(format("{} {} ended it", ranks_of(over), verb(over, "has", "have")));
  return format("{} {} {}: {}", ranks_of(inside),
                failed ? "failed in" : verb(inside, "is in", "are in"),
                short_call_text(*inside.front().at), joined(parts, ", "));
}

std::string missing_text(const FlightGroup& group) {
  const auto missing = group.size - static_cast<int>(group.logs.size());
  if (missing == 0) return {};
  std::vector<int> ranks;
  for (const int rank : group.members)
    if (std::ranges::find(group.logs, rank, &FlightLog::rank) == group.logs.end())
      ranks.push_back(rank);
  return format("; there is no record of {}", ranks_text(ranks));
}

// Empty when none is running.
std::string collectives_text(const FlightGroup& group, FlightTime now) {
  const auto all = rank_positions(group);
  const auto [first, last] = std::ranges::minmax_element(all, {}, &RankPosition::sequence);
  if (last == all.end() || last->sequence() == 0) return {};
  return first->sequence() < last->sequence()
             ? describe_divergence(group, all, first->sequence(), last->sequence(), now)
             : describe_common_call(all, now);
}

// A send or recv that has not succeeded.
struct OpenCall {
  const FlightLog* log;
  const FlightOperation* call;
};

std::vector<OpenCall> open_calls(const FlightGroup& group) {
  std::vector<OpenCall> open;
  for (const FlightLog& log : group.logs)
    for (const FlightOperation& call : log.operations)
      if (!call.is_collective() && call.state != FlightState::done) open.push_back({&log, &call});
  std::ranges::sort(
      open, {}, [](const OpenCall& one) { return std::pair(one.call->enqueued, one.log->rank); });
  return open;
}

// "rank 2 waits for the send of rank 1 with tag 5 for stage.1 (31s)"
std::string exchange_text(const OpenCall& one, FlightTime now) {
  const FlightOperation& call = *one.call;
  return format("rank {} {} for the {} of {} with tag {}{} ({})", one.log->rank,
                call.ended ? "waited" : "waits", call.receives ? "send" : "recv",
                *call.peer == kAnyPeer ? "any rank" : format("rank {}", *call.peer),
                call.root.value_or(0), call.label.empty() ? "" : format(" for {}", call.label),
                duration_text(call.ended.value_or(now) - call.enqueued));
}

// The ranks for which others wait and that wait for no rank.
std::string idle_peers_text(const FlightGroup& group, const std::vector<OpenCall>& open,
                            FlightTime now) {
  const auto waits = [&](const RankPosition& one) {
    return (one.is_waiting() && one.is_inside()) ||
           std::ranges::any_of(open, [&](const OpenCall& each) { return each.log == one.log; });
  };
  const auto is_waited_for = [&](const RankPosition& one) {
    return std::ranges::any_of(
        open, [&](const OpenCall& each) { return each.call->peer == one.log->rank; });
  };
  const auto idle = filter_positions(rank_positions(group), [&](const RankPosition& one) {
    return is_waited_for(one) && !waits(one);
  });
  return idle.empty() ? "" : "; " + idle_text(idle, last_activity_text(idle.front()), now);
}

// Describes the oldest of them; empty when there are none.
std::string exchanges_text(const FlightGroup& group, FlightTime now) {
  const auto open = open_calls(group);
  std::vector<std::string> waits;
  for (const OpenCall& one : open)
    if (waits.size() < kWaitsShown) waits.push_back(exchange_text(one, now));
  return joined(waits, ", ") + idle_peers_text(group, open, now);
}

std::string idle_group_text(const FlightGroup& group, FlightTime now) {
  const auto all = rank_positions(group);
  const bool any =
      std::ranges::any_of(all, [](const RankPosition& one) { return one.sequence() > 0; });
  return any ? all_ended(all, now) : "no collective was called";
}

}  // namespace

int find_late_rank(const FlightGroup& group) {
  const auto all = rank_positions(group);
  const auto [first, last] = std::ranges::minmax_element(all, {}, &RankPosition::sequence);
  if (last != all.end() && first->sequence() < last->sequence())
    return likely_causes(filter_positions(all,
                                          [&](const RankPosition& one) {
                                            return one.sequence() == first->sequence();
                                          }))
        .front()
        .log->rank;
  const auto inside =
      filter_positions(all, [](const RankPosition& one) { return one.is_inside(); });
  const auto idle =
      filter_positions(inside, [](const RankPosition& one) { return !one.is_waiting(); });
  if (!idle.empty()) return idle.front().log->rank;
  if (!inside.empty()) return inside.front().at->wait->peer;
  const auto open = open_calls(group);
  const auto waits =
      std::ranges::find_if(open, [](const OpenCall& one) { return *one.call->peer >= 0; });
  return waits == open.end() ? -1 : *waits->call->peer;
}

std::string describe_mismatch(const FlightGroup& group) {
  for (const FlightRow& row : flight_rows(group, std::numeric_limits<std::size_t>::max())) {
    const auto& first = row.first_recorded();
    const auto other = std::ranges::find_if(
        row.calls, [&](const auto* call) { return call != nullptr && !match(*call, first); });
    if (other == row.calls.end()) continue;
    const auto rank = [&](auto call) {
      return group.logs[static_cast<std::size_t>(call - row.calls.begin())].rank;
    };
    return format("the ranks' calls do not match at #{}: rank {} called {}, rank {} called {}",
                  row.sequence, rank(std::ranges::find(row.calls, &first)), full_call_text(first),
                  rank(other), full_call_text(**other));
  }
  return {};
}

std::string describe_stall(const FlightGroup& group, FlightTime now) {
  if (auto description = describe_mismatch(group); !description.empty()) return description;
  std::vector<std::string> parts;
  for (const auto& description : {collectives_text(group, now), exchanges_text(group, now)})
    if (!description.empty()) parts.push_back(description);
  return joined(parts, "; ");
}

std::string diagnose(const FlightGroup& group, FlightTime now) {
  const auto description = describe_stall(group, now);
  return (description.empty() ? idle_group_text(group, now) : description) + missing_text(group);
}

}  // namespace lockstep::comm
