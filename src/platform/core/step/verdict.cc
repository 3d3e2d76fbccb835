#include "platform/core/step/verdict.h"

#include <algorithm>
#include <csignal>
#include <limits>
#include <set>
#include <tuple>

#include "base/format.h"
#include "platform/core/step/words.h"
#include "report/fault/fault.h"

namespace lockstep {
namespace {

struct Suspect {
  const Node* node = nullptr;
  const Rank* rank = nullptr;
};
using Suspects = std::vector<Suspect>;

Suspects all_ranks(const std::vector<const Node*>& nodes) {
  Suspects all;
  for (const Node* node : nodes)
    for (const Rank& rank : node->ranks) all.push_back({node, &rank});
  return all;
}

// Echoes of a hang, and of what agents did by themselves, left out. At equal times the lowest rank.
std::optional<Suspect> first_bad_end(const Attempt& attempt, const Suspects& ranks,
                                     std::optional<Time> by_us) {
  std::optional<Suspect> first;
  for (const Suspect& suspect : ranks) {
    if (!ended_badly(*suspect.rank)) continue;
    if (by_us && suspect.rank->ended > by_us) continue;
    if (attempt.cause == Cause::hung && suspect.rank->ended >= attempt.draining) continue;
    if (!first || suspect.rank->ended < first->rank->ended) first = suspect;
  }
  return first;
}

// No signal but SIGKILL reaches it, and its peers wait.
bool stands_still(const Rank& rank) {
  return rank.activity == Activity::stopped || rank.activity == Activity::blocked;
}

// It runs, or would if its agent had let it; or it stood still when the attempt's end began, and
// went on only to fail because its peers had.
bool held_others_up(const Attempt& attempt, const Rank& rank) {
  if (stands_still(rank) && attempt.draining && rank.ended >= attempt.draining) return true;
  return rank.state == RankState::running || rank.state == RankState::lost || rank.signalled_by_us;
}

// Who is most likely to hold up the others comes first.
auto order_of_suspicion(const Rank& rank) {
  const int activity = rank.activity == Activity::stopped   ? 0
                       : rank.activity == Activity::blocked ? 1
                                                            : 2;
  const auto step = rank.step < 0 ? std::numeric_limits<std::int64_t>::max() : rank.step;
  return std::tuple(activity, step, rank.rank);
}

std::optional<Suspect> hanging_rank(const Attempt& attempt, Suspects ranks) {
  std::erase_if(ranks, [&](const Suspect& s) { return !held_others_up(attempt, *s.rank); });
  if (ranks.empty()) return std::nullopt;
  return *std::ranges::min_element(ranks, {},
                                   [](const Suspect& s) { return order_of_suspicion(*s.rank); });
}

// Some rank goes on without those that were killed, or has come to the end after the last of them
// died. One that exited with 0 before may have left because no replica needed it.
bool goes_on_without(const Suspects& ranks) {
  std::optional<Time> last_death;
  for (const Suspect& suspect : ranks)
    if (suspect.rank->state == RankState::killed)
      last_death = std::max(last_death, suspect.rank->ended);
  const auto well = [&](const Suspect& suspect) {
    const Rank& rank = *suspect.rank;
    return rank.state == RankState::running ||
           (rank.state == RankState::exited && rank.code == 0 && rank.ended >= last_death);
  };
  const auto failed = [](const Suspect& suspect) {
    return suspect.rank->state == RankState::exited && suspect.rank->code != 0;
  };
  return std::ranges::any_of(ranks, well) && std::ranges::none_of(ranks, failed);
}

bool gave_up_by_itself(const Rank& rank) {
  return rank.state == RankState::exited || rank.code == SIGABRT;
}

bool ended_well(const Rank& rank) {
  return rank.state == RankState::exited && rank.code == 0 && !rank.signalled_by_us;
}

// It said why, and its program did not fail.
bool gave_up_by(const Rank& rank, Fault fault) {
  return ended_badly(rank) && gave_up_by_itself(rank) && rank.fault == fault;
}
bool has_given_up(const Rank& rank) {
  return gave_up_by(rank, Fault::connection_lost) || gave_up_by(rank, Fault::timed_out);
}

std::string_view doing(Activity activity) {
  switch (activity) {
    case Activity::stopped:
      return "its process is stopped (SIGSTOP or a debugger)";
    case Activity::blocked:
      return "its process is blocked in the kernel (a disk, a network file system or a driver)";
    case Activity::running:
      return "its process computes";
    case Activity::sleeping:
      return "its process waits";
    case Activity::unknown:
      break;
  }
  return "";
}

std::string stall_of(const Rank& rank, Duration hang_after) {
  const auto time = short_text(hang_after);
  return rank.step < 0 ? format("no progress for {}", time)
                       : format("no progress since step {} for {}", rank.step, time);
}

std::string end_words(const Rank& rank) {
  return rank.state == RankState::killed ? "was killed by " + signal_name(rank.code)
                                         : format("failed with code {}", rank.code);
}

Verdict end_of(const Suspect& suspect) {
  const auto& [node, rank] = suspect;
  const auto who = place_of(*node, *rank);
  if (rank->state == RankState::exited)
    return {.cause = Cause::user_exit, .reason = format("{} exited with code {}", who, rank->code)};
  return {.cause = Cause::rank_lost,
          .reason = format("{} was killed by {}", who, signal_name(rank->code)),
          .by_itself = !gave_up_by_itself(*rank),
          .kill = Kill{rank->rank, rank->code, rank->step}};
}

// Its stall, unless no agent saw one; and what its process does, if that is known.
Verdict hang_of(const Suspect& suspect, bool stalled, Duration hang_after) {
  std::string signs = stalled ? stall_of(*suspect.rank, hang_after) : "";
  const auto activity = doing(suspect.rank->activity);
  if (!signs.empty() && !activity.empty()) signs += "; ";
  signs += activity;
  return {.cause = Cause::hung,
          .reason = format("{} hangs: {}", place_of(*suspect.node, *suspect.rank), signs),
          .by_itself = suspect.rank->activity == Activity::stopped};
}

std::string place_of(const Suspect& suspect) { return place_of(*suspect.node, *suspect.rank); }

// ": what it said", if it said anything.
std::string words_of(const Rank& rank) {
  return rank.fault_text.empty() ? "" : ": " + one_line(rank.fault_text);
}

std::optional<Suspect> find_rank(const Suspects& ranks, int number) {
  const auto found =
      std::ranges::find_if(ranks, [&](const Suspect& s) { return s.rank->rank == number; });
  return found == ranks.end() ? std::nullopt : std::optional(*found);
}

// The earliest that ended so.
template <class Is>
std::optional<Suspect> first_that(const Suspects& ranks, Is is) {
  std::optional<Suspect> first;
  for (const Suspect& suspect : ranks)
    if (is(*suspect.rank) && (!first || suspect.rank->ended < first->rank->ended)) first = suspect;
  return first;
}

// From one that gave up to the rank that it waited for; none: it did not know.
struct Link {
  Suspect from;
  std::optional<Suspect> to;
};

// Over ranks that gave up because of another to the last one; in a circle, the first link.
Link follow(const Suspects& ranks, const Suspect& first) {
  const Link begin{first, find_rank(ranks, first.rank->fault_rank)};
  std::set<int> seen = {first.rank->rank};
  Link link = begin;
  while (link.to && has_given_up(*link.to->rank)) {
    if (!seen.insert(link.to->rank->rank).second) return begin;
    const auto next = find_rank(ranks, link.to->rank->fault_rank);
    if (!next) return begin;
    link = {*link.to, next};
  }
  return link;
}

Verdict early_exit_of(const Suspect& early, const Suspect& victim) {
  return {.cause = Cause::user_exit,
          .reason = format("{} exited with code 0 before the others; rank {} then {}",
                           place_of(early), victim.rank->rank, end_words(*victim.rank))};
}

// The agent started it again, and the others had finished the training before it could join them.
Verdict late_replacement_of(const Suspect& late) {
  return {.cause = Cause::rank_lost,
          .reason = format("{} was started again after a loss and found no rank to join{}",
                           place_of(late), words_of(*late.rank))};
}

Verdict lost_connection_of(const Link& link, const Suspects& ranks) {
  Verdict verdict;
  verdict.cause = Cause::rank_lost;
  if (link.to)
    verdict.reason = format("the connection from {} to {} was lost; rank {} had not ended",
                            place_of(link.from), place_of(*link.to), link.to->rank->rank);
  else
    verdict.reason =
        format("{} lost a connection{}", place_of(link.from), words_of(*link.from.rank));
  if (std::ranges::any_of(ranks,
                          [](const Suspect& s) { return s.rank->state == RankState::running; }))
    verdict.unsettled_since = link.from.rank->ended;
  return verdict;
}

Verdict time_out_of(const Link& link) {
  if (!link.to)
    return {.cause = Cause::hung,
            .reason = format("{} timed out{}", place_of(link.from), words_of(*link.from.rank))};
  const auto activity = doing(link.to->rank->activity);
  return {.cause = Cause::hung,
          .reason = format("{} hangs: rank {} timed out waiting for it{}{}{}", place_of(*link.to),
                           link.from.rank->rank, words_of(*link.from.rank),
                           activity.empty() ? "" : "; ", activity),
          .by_itself = link.to->rank->activity == Activity::stopped};
}

// Of the first that ended badly, and has said why.
Verdict blame(const Suspects& ranks, const Suspect& first) {
  const Link link = follow(ranks, first);
  const auto failed = [](const Rank& rank) { return ended_badly(rank) && !has_given_up(rank); };
  const auto early = [&](const Rank& rank) {
    return ended_well(rank) && rank.ended <= first.rank->ended;
  };
  if (!link.to)
    if (const auto other = first_that(ranks, failed)) return end_of(*other);
  if (!link.to)
    if (const auto other = first_that(ranks, early))
      return first.rank->restarts > 0 ? late_replacement_of(first) : early_exit_of(*other, first);
  if (link.to && failed(*link.to->rank)) return end_of(*link.to);
  if (link.to && ended_well(*link.to->rank)) return early_exit_of(*link.to, first);
  return link.from.rank->fault == Fault::timed_out ? time_out_of(link)
                                                   : lost_connection_of(link, ranks);
}

// By another writer of its checkpoint folder.
std::optional<Verdict> kept_out_of(const Attempt& attempt, const Suspects& ranks) {
  const auto by = [&](Fault fault) {
    return first_that(ranks, [fault](const Rank& rank) { return gave_up_by(rank, fault); });
  };
  if (const auto fenced = by(Fault::superseded))
    return Verdict{.cause = Cause::superseded,
                   .reason = place_of(*fenced) + " had to end" + words_of(*fenced->rank),
                   .by_itself = true};
  if (const auto refused = by(Fault::refused))
    return Verdict{
        .cause = Cause::refused,
        .reason = format("{} was refused: {}", text(attempt.id.run), refused->rank->fault_text),
        .by_itself = true};
  return std::nullopt;
}

}  // namespace

std::optional<Verdict> verdict_on(const Attempt& attempt, const std::vector<const Node*>& nodes,
                                  Duration hang_after, OnFailure on_failure) {
  Suspects ranks = all_ranks(nodes);
  if (on_failure == OnFailure::shrink && goes_on_without(ranks))
    std::erase_if(ranks, [](const Suspect& suspect) {
      return suspect.rank->state == RankState::killed && !suspect.rank->signalled_by_us;
    });
  const bool stalled = std::ranges::any_of(
      ranks, [](const Suspect& suspect) { return suspect.rank->stalled_since.has_value(); });
  const auto bad_end = first_bad_end(attempt, ranks, first_end_by_agent(nodes));
  const auto hanging = hanging_rank(attempt, ranks);
  if (auto kept_out = kept_out_of(attempt, ranks)) return kept_out;
  if (bad_end && hanging && stands_still(*hanging->rank) && gave_up_by_itself(*bad_end->rank))
    return hang_of(*hanging, stalled, hang_after);
  if (bad_end && has_given_up(*bad_end->rank)) return blame(ranks, *bad_end);
  if (bad_end) return end_of(*bad_end);
  if (stalled && hanging) return hang_of(*hanging, stalled, hang_after);
  return std::nullopt;
}

std::optional<Time> first_end_by_agent(const std::vector<const Node*>& nodes) {
  std::optional<Time> first;
  for (const auto& [node, rank] : all_ranks(nodes))
    if (rank->signalled_by_us && rank->ended)
      first = std::min(first.value_or(*rank->ended), *rank->ended);
  return first;
}

bool is_crash(int signal) {
  return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGFPE ||
         signal == SIGILL || signal == SIGSYS || signal == SIGTRAP;
}

bool has_crashed(const std::vector<const Node*>& nodes, const Kill& kill) {
  const auto found = find_rank(all_ranks(nodes), kill.rank);
  if (!found) return false;
  const Rank& rank = *found->rank;
  return ended_badly(rank) && rank.state == RankState::killed && is_crash(rank.code) &&
         !has_given_up(rank) && Kill{rank.rank, rank.code, rank.step} == kill;
}

bool is_verdict(Cause cause) {
  return cause == Cause::user_exit || cause == Cause::rank_lost || cause == Cause::hung;
}

}  // namespace lockstep
