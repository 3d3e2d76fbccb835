#include "platform/core/step/verdict.h"

#include <algorithm>
#include <csignal>
#include <limits>
#include <tuple>

#include "base/format.h"
#include "platform/core/step/words.h"

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

// It runs, or would if its agent had let it; or it was stopped when the attempt's end began, and
// went on only to fail because its peers had.
bool held_others_up(const Attempt& attempt, const Rank& rank) {
  if (rank.activity == Activity::stopped && attempt.draining && rank.ended >= attempt.draining)
    return true;
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

Verdict end_of(const Suspect& suspect) {
  const auto& [node, rank] = suspect;
  const auto who = place_of(*node, *rank);
  if (rank->state == RankState::killed)
    return {Cause::rank_lost, format("{} was killed by {}", who, signal_name(rank->code)),
            !gave_up_by_itself(*rank)};
  return {Cause::user_exit, format("{} exited with code {}", who, rank->code)};
}

// Its stall, unless no agent saw one; and what its process does, if that is known.
Verdict hang_of(const Suspect& suspect, bool stalled, Duration hang_after) {
  std::string signs = stalled ? stall_of(*suspect.rank, hang_after) : "";
  const auto activity = doing(suspect.rank->activity);
  if (!signs.empty() && !activity.empty()) signs += "; ";
  signs += activity;
  return {Cause::hung, format("{} hangs: {}", place_of(*suspect.node, *suspect.rank), signs),
          suspect.rank->activity == Activity::stopped};
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
  const bool stopped = hanging && hanging->rank->activity == Activity::stopped;
  if (bad_end && stopped && gave_up_by_itself(*bad_end->rank))
    return hang_of(*hanging, stalled, hang_after);
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

bool is_verdict(Cause cause) {
  return cause == Cause::user_exit || cause == Cause::rank_lost || cause == Cause::hung;
}

}  // namespace lockstep
