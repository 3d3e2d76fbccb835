#include "comm/flight/verdict/verdict.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/format.h"
#include "comm/flight/verdict/words.h"

namespace lockstep {
namespace {

constexpr std::size_t kWaitsTold = 4;

// Where a rank is: the newest collective that it entered, or none.
struct Standing {
  const FlightLog* log;
  const FlightOperation* at;

  std::uint64_t place() const { return at == nullptr ? 0 : at->sequence; }
  bool waits() const { return at != nullptr && at->wait; }
  bool is_inside() const { return at != nullptr && at->state != FlightState::done; }
};
using Standings = std::vector<Standing>;

Standings standings_of(const FlightGroup& group) {
  Standings standings;
  for (const FlightLog& log : group.logs) standings.push_back({&log, newest_entered(log)});
  return standings;
}

template <class Wanted>
Standings those(const Standings& all, Wanted wanted) {
  Standings found;
  std::ranges::copy_if(all, std::back_inserter(found), wanted);
  return found;
}

std::string ranks_of(const Standings& standings) {
  std::vector<int> ranks;
  for (const Standing& standing : standings) ranks.push_back(standing.log->rank);
  return ranks_text(ranks);
}

std::string_view verb(const Standings& standings, std::string_view one, std::string_view several) {
  return standings.size() == 1 ? one : several;
}

bool match(const FlightOperation& a, const FlightOperation& b) {
  const auto essence = [](const FlightOperation& call) {
    return std::tie(call.name, call.type, call.reduction, call.bytes, call.root);
  };
  return essence(a) == essence(b);
}

std::string wait_text(const FlightWait& wait) {
  return format("waiting for rank {} {}", wait.peer, text(wait.what));
}

// " in #810 barrier, waiting for rank 0 to send data"
std::string last_act(const Standing& standing) {
  if (standing.at == nullptr) return " before its first collective";
  const auto call = brief_call(*standing.at);
  if (standing.at->state == FlightState::done) return format(" after {}", call);
  const auto failed = standing.at->state == FlightState::failed ? ", which failed" : "";
  const auto wait = standing.at->wait ? ", " + wait_text(*standing.at->wait) : "";
  return format(" in {}{}{}", call, wait, failed);
}

// What the ranks call at this place, by whoever recorded it.
std::string call_at(const FlightGroup& group, std::uint64_t sequence) {
  for (const FlightLog& log : group.logs)
    for (const FlightOperation& operation : log.operations)
      if (operation.is_collective() && operation.sequence == sequence) return brief_call(operation);
  return format("#{}", sequence);
}

// Of those that are behind, who waits for another is rather held up than holding up.
Standings to_blame(const Standings& behind) {
  auto idle = those(behind, [](const Standing& standing) { return !standing.waits(); });
  return idle.empty() ? behind : idle;
}

std::string told_apart(const FlightGroup& group, const Standings& all, std::uint64_t least,
                       std::uint64_t most, FlightTime now) {
  const auto ahead = those(all, [&](const Standing& one) { return one.place() == most; });
  const auto behind =
      to_blame(those(all, [&](const Standing& one) { return one.place() == least; }));
  const auto front = format("{} {} at {}", ranks_of(ahead), verb(ahead, "is", "are"),
                            brief_call(*ahead.front().at));
  const auto late = format("{} {} not entered {}", ranks_of(behind), verb(behind, "has", "have"),
                           call_at(group, least + 1));
  const auto& first = behind.front();
  const auto seen =
      format("last seen {} ago{}", span_text(now - first.log->last_seen()), last_act(first));
  return format("{}; {}, {}{}{}", front, late,
                behind.size() == 1 ? "" : format("rank {} ", first.log->rank), seen,
                process_text(*first.log));
}

Nanoseconds waited(const Standing& one, FlightTime now) {
  return one.at->ended.value_or(now) - one.at->wait->since;
}

// "ranks 0 and 2 wait for rank 1 to send data (31s)"
std::string wait_of(const Standings& waiters, FlightTime now) {
  Nanoseconds longest{};
  for (const Standing& one : waiters) longest = std::max(longest, waited(one, now));
  const bool over = waiters.front().at->ended.has_value();
  const FlightWait& wait = *waiters.front().at->wait;
  return format("{} {} for rank {} {} ({})", ranks_of(waiters),
                over ? "waited" : verb(waiters, "waits", "wait"), wait.peer, text(wait.what),
                span_text(longest));
}

std::string waits_text(const Standings& inside, FlightTime now) {
  std::map<std::pair<int, WaitFor>, Standings> by_wait;
  for (const Standing& one : inside)
    if (one.waits()) by_wait[{one.at->wait->peer, one.at->wait->what}].push_back(one);
  std::vector<std::string> waits;
  for (const auto& [wait, waiters] : by_wait)
    if (waits.size() < kWaitsTold) waits.push_back(wait_of(waiters, now));
  return joined(waits, ", ");
}

// act: of the first of them, what it did last.
std::string idle_text(const Standings& idle, std::string_view act, FlightTime now) {
  const auto& log = *idle.front().log;
  return format("{} {} for no rank{}, last seen {} ago{}{}", ranks_of(idle),
                verb(idle, "waits", "wait"), idle.size() == 1 ? "" : format("; rank {}", log.rank),
                span_text(now - log.last_seen()), act, process_text(log));
}

std::string all_ended(const Standings& all, FlightTime now) {
  FlightTime last;
  for (const Standing& one : all) last = std::max(last, one.at->ended.value_or(last));
  return format("{} {} ended {}, the last {} ago; nothing is under way", ranks_of(all),
                verb(all, "has", "have"), brief_call(*all.front().at), span_text(now - last));
}

// Empty when all have ended it.
std::string told_together(const Standings& all, FlightTime now) {
  const auto inside = those(all, [](const Standing& one) { return one.is_inside(); });
  if (inside.empty()) return {};
  const bool failed = std::ranges::all_of(
      inside, [](const Standing& one) { return one.at->state == FlightState::failed; });
  std::vector<std::string> parts;
  if (auto waits = waits_text(inside, now); !waits.empty()) parts.push_back(std::move(waits));
  const auto idle = those(inside, [](const Standing& one) { return !one.waits(); });
  if (!idle.empty()) parts.push_back(idle_text(idle, "", now));
  const auto over = those(all, [](const Standing& one) { return !one.is_inside(); });
  if (!over.empty())
    parts.push_back(format("{} {} ended it", ranks_of(over), verb(over, "has", "have")));
  return format("{} {} {}: {}", ranks_of(inside),
                failed ? "failed in" : verb(inside, "is in", "are in"),
                brief_call(*inside.front().at), joined(parts, ", "));
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

// Empty when none is under way.
std::string collectives_text(const FlightGroup& group, FlightTime now) {
  const auto all = standings_of(group);
  const auto [first, last] = std::ranges::minmax_element(all, {}, &Standing::place);
  if (last == all.end() || last->place() == 0) return {};
  return first->place() < last->place() ? told_apart(group, all, first->place(), last->place(), now)
                                        : told_together(all, now);
}

// A send or recv that has not ended well.
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
                span_text(call.ended.value_or(now) - call.enqueued));
}

// Of those whom others wait for, who waits for nobody.
std::string idle_peers_text(const FlightGroup& group, const std::vector<OpenCall>& open,
                            FlightTime now) {
  const auto waits = [&](const Standing& one) {
    return (one.waits() && one.is_inside()) ||
           std::ranges::any_of(open, [&](const OpenCall& each) { return each.log == one.log; });
  };
  const auto is_waited_for = [&](const Standing& one) {
    return std::ranges::any_of(
        open, [&](const OpenCall& each) { return each.call->peer == one.log->rank; });
  };
  const auto idle = those(standings_of(group),
                          [&](const Standing& one) { return is_waited_for(one) && !waits(one); });
  return idle.empty() ? "" : "; " + idle_text(idle, last_act(idle.front()), now);
}

// The oldest of them; empty when there are none.
std::string exchanges_text(const FlightGroup& group, FlightTime now) {
  const auto open = open_calls(group);
  std::vector<std::string> waits;
  for (const OpenCall& one : open)
    if (waits.size() < kWaitsTold) waits.push_back(exchange_text(one, now));
  return joined(waits, ", ") + idle_peers_text(group, open, now);
}

std::string idle_group_text(const FlightGroup& group, FlightTime now) {
  const auto all = standings_of(group);
  const bool any = std::ranges::any_of(all, [](const Standing& one) { return one.place() > 0; });
  return any ? all_ended(all, now) : "no collective was called";
}

}  // namespace

int late_rank_of(const FlightGroup& group) {
  const auto all = standings_of(group);
  const auto [first, last] = std::ranges::minmax_element(all, {}, &Standing::place);
  if (last != all.end() && first->place() < last->place())
    return to_blame(those(all, [&](const Standing& one) { return one.place() == first->place(); }))
        .front()
        .log->rank;
  const auto inside = those(all, [](const Standing& one) { return one.is_inside(); });
  const auto idle = those(inside, [](const Standing& one) { return !one.waits(); });
  if (!idle.empty()) return idle.front().log->rank;
  if (!inside.empty()) return inside.front().at->wait->peer;
  const auto open = open_calls(group);
  const auto waits =
      std::ranges::find_if(open, [](const OpenCall& one) { return *one.call->peer >= 0; });
  return waits == open.end() ? -1 : *waits->call->peer;
}

std::string mismatch_of(const FlightGroup& group) {
  for (const FlightRow& row : flight_rows(group, std::numeric_limits<std::size_t>::max())) {
    const auto& first = row.any();
    const auto other = std::ranges::find_if(
        row.calls, [&](const auto* call) { return call != nullptr && !match(*call, first); });
    if (other == row.calls.end()) continue;
    const auto rank = [&](auto call) {
      return group.logs[static_cast<std::size_t>(call - row.calls.begin())].rank;
    };
    return format("the ranks' calls do not match at #{}: rank {} called {}, rank {} called {}",
                  row.sequence, rank(std::ranges::find(row.calls, &first)), exact_call(first),
                  rank(other), exact_call(**other));
  }
  return {};
}

std::string holdup_of(const FlightGroup& group, FlightTime now) {
  if (auto words = mismatch_of(group); !words.empty()) return words;
  std::vector<std::string> parts;
  for (const auto& words : {collectives_text(group, now), exchanges_text(group, now)})
    if (!words.empty()) parts.push_back(words);
  return joined(parts, "; ");
}

std::string verdict_of(const FlightGroup& group, FlightTime now) {
  const auto words = holdup_of(group, now);
  return (words.empty() ? idle_group_text(group, now) : words) + missing_text(group);
}

}  // namespace lockstep
