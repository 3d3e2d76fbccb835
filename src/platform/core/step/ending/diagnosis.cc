#include "platform/core/step/ending/diagnosis.h"

#include <algorithm>
#include <csignal>
#include <limits>
#include <set>
#include <tuple>

#include "base/format.h"
#include "platform/core/step/ending/reason_text.h"
#include "report/fault/fault.h"

namespace lockstep::step {
namespace {

struct NodeRank {
  const model::Node* node = nullptr;
  const model::Rank* rank = nullptr;
};
using NodeRanks = std::vector<NodeRank>;

NodeRanks all_ranks(const std::vector<const model::Node*>& nodes) {
  NodeRanks all;
  for (const model::Node* node : nodes)
    for (const model::Rank& rank : node->ranks) all.push_back({node, &rank});
  return all;
}

// Ignores consequences of a hang and ranks that agents ended. At equal times the lowest rank.
std::optional<NodeRank> first_failed_rank(const model::Attempt& attempt, const NodeRanks& ranks,
                                          std::optional<Time> end_by_agent) {
  std::optional<NodeRank> first;
  for (const NodeRank& node_rank : ranks) {
    if (!model::ended_badly(*node_rank.rank)) continue;
    if (end_by_agent && node_rank.rank->ended > end_by_agent) continue;
    if (attempt.cause == model::Cause::hung && node_rank.rank->ended >= attempt.draining) continue;
    if (!first || node_rank.rank->ended < first->rank->ended) first = node_rank;
  }
  return first;
}

// Only SIGKILL reaches the process, and its peers wait.
bool is_stopped_or_blocked(const model::Rank& rank) {
  return rank.activity == model::Activity::stopped || rank.activity == model::Activity::blocked;
}

// The rank runs, or was ended by its agent. Or it was stopped or blocked when draining began, and
// then failed only because its peers had failed.
bool may_have_blocked_others(const model::Attempt& attempt, const model::Rank& rank) {
  if (is_stopped_or_blocked(rank) && attempt.draining && rank.ended >= attempt.draining)
    return true;
  return rank.state == model::RankState::running || rank.state == model::RankState::lost ||
         rank.signalled_by_agent;
}

// The rank that most likely blocks the others comes first.
auto hang_candidate_order(const model::Rank& rank) {
  const int activity = rank.activity == model::Activity::stopped   ? 0
                       : rank.activity == model::Activity::blocked ? 1
                                                                   : 2;
  const auto step = rank.step < 0 ? std::numeric_limits<std::int64_t>::max() : rank.step;
  return std::tuple(activity, step, rank.rank);
}

std::optional<NodeRank> hanging_rank(const model::Attempt& attempt, NodeRanks ranks) {
  std::erase_if(ranks,
                [&](const NodeRank& s) { return !may_have_blocked_others(attempt, *s.rank); });
  if (ranks.empty()) return std::nullopt;
  return *std::ranges::min_element(ranks, {},
                                   [](const NodeRank& s) { return hang_candidate_order(*s.rank); });
}

// True if some rank continues without the killed ones, or succeeded after the last of them was
// killed. A rank that exited with 0 before may have ended because no replica needed it.
bool continues_without_killed(const NodeRanks& ranks) {
  std::optional<Time> last_death;
  for (const NodeRank& node_rank : ranks)
    if (node_rank.rank->state == model::RankState::killed)
      last_death = std::max(last_death, node_rank.rank->ended);
  const auto well = [&](const NodeRank& node_rank) {
    const model::Rank& rank = *node_rank.rank;
    return rank.state == model::RankState::running ||
           (rank.state == model::RankState::exited && rank.code == 0 && rank.ended >= last_death);
  };
  const auto failed = [](const NodeRank& node_rank) {
    return node_rank.rank->state == model::RankState::exited && node_rank.rank->code != 0;
  };
  return std::ranges::any_of(ranks, well) && std::ranges::none_of(ranks, failed);
}

bool exited_or_aborted(const model::Rank& rank) {
  return rank.state == model::RankState::exited || rank.code == SIGABRT;
}

bool ended_well(const model::Rank& rank) {
  return rank.state == model::RankState::exited && rank.code == 0 && !rank.signalled_by_agent;
}

// The rank reported this fault, and its program did not crash.
bool ended_with_fault(const model::Rank& rank, report::Fault fault) {
  return model::ended_badly(rank) && exited_or_aborted(rank) && rank.fault == fault;
}
bool ended_by_peer_fault(const model::Rank& rank) {
  return ended_with_fault(rank, report::Fault::connection_lost) ||
         ended_with_fault(rank, report::Fault::timed_out);
}

std::string_view describe_activity(model::Activity activity) {
  switch (activity) {
    case model::Activity::stopped:
      return "its process is stopped (SIGSTOP or a debugger)";
    case model::Activity::blocked:
      return "its process is blocked in the kernel (a disk, a network file system or a driver)";
    case model::Activity::running:
      return "its process computes";
    case model::Activity::sleeping:
      return "its process waits";
    case model::Activity::unknown:
      break;
  }
  return "";
}

std::string describe_no_progress(const model::Rank& rank, Duration hang_after) {
  const auto time = short_text(hang_after);
  return rank.step < 0 ? format("no progress for {}", time)
                       : format("no progress since step {} for {}", rank.step, time);
}

std::string describe_end(const model::Rank& rank) {
  return rank.state == model::RankState::killed ? "was killed by " + signal_name(rank.code)
                                                : format("failed with code {}", rank.code);
}

// ": " and the fault text, if there is any.
std::string fault_text_suffix(const model::Rank& rank) {
  return rank.fault_text.empty() ? "" : ": " + one_line(rank.fault_text);
}

AttemptDiagnosis end_of(const NodeRank& node_rank) {
  const auto& [node, rank] = node_rank;
  const auto who = describe_location(*node, *rank);
  if (rank->state == model::RankState::exited)
    return {.cause = model::Cause::user_exit,
            .reason = format("{} exited with code {}", who, rank->code),
            .rank = rank->rank};
  if (rank->fault == report::Fault::out_of_memory)
    return {.cause = model::Cause::oom,
            .reason = format("{} was killed{}", who, fault_text_suffix(*rank)),
            .is_independent = true,
            .rank = rank->rank};
  return {.cause = model::Cause::rank_lost,
          .reason = format("{} was killed by {}{}", who, signal_name(rank->code),
                           rank->fault == report::Fault::none ? fault_text_suffix(*rank) : ""),
          .is_independent = !exited_or_aborted(*rank),
          .kill = RankKill{rank->rank, rank->code, rank->step},
          .rank = rank->rank};
}

// The lack of progress, if an agent saw it, and what the process does, if that is known.
AttemptDiagnosis hang_of(const NodeRank& node_rank, bool stalled, Duration hang_after) {
  std::string signs = stalled ? describe_no_progress(*node_rank.rank, hang_after) : "";
  const auto activity = describe_activity(node_rank.rank->activity);
  if (!signs.empty() && !activity.empty()) signs += "; ";
  signs += activity;
  return {
      .cause = model::Cause::hung,
      .reason = format("{} hangs: {}", describe_location(*node_rank.node, *node_rank.rank), signs),
      .is_independent = node_rank.rank->activity == model::Activity::stopped,
      .rank = node_rank.rank->rank};
}

std::string describe_node_rank(const NodeRank& node_rank) {
  return describe_location(*node_rank.node, *node_rank.rank);
}

std::optional<NodeRank> find_rank(const NodeRanks& ranks, int number) {
  const auto found =
      std::ranges::find_if(ranks, [&](const NodeRank& s) { return s.rank->rank == number; });
  return found == ranks.end() ? std::nullopt : std::optional(*found);
}

// The rank for which `is` holds that ended first.
template <class Is>
std::optional<NodeRank> earliest_that(const NodeRanks& ranks, Is is) {
  std::optional<NodeRank> first;
  for (const NodeRank& node_rank : ranks)
    if (is(*node_rank.rank) && (!first || node_rank.rank->ended < first->rank->ended))
      first = node_rank;
  return first;
}

// From a rank that gave up to the rank that it waited for; none: unknown.
struct FaultLink {
  NodeRank from;
  std::optional<NodeRank> to;
};

// Follows ranks that gave up because of another rank, to the last one; returns the first link of a
// cycle.
FaultLink follow_fault_links(const NodeRanks& ranks, const NodeRank& first) {
  const FaultLink begin{first, find_rank(ranks, first.rank->fault_rank)};
  std::set<int> seen = {first.rank->rank};
  FaultLink link = begin;
  while (link.to && ended_by_peer_fault(*link.to->rank)) {
    if (!seen.insert(link.to->rank->rank).second) return begin;
    const auto next = find_rank(ranks, link.to->rank->fault_rank);
    if (!next) return begin;
    link = {*link.to, next};
  }
  return link;
}

AttemptDiagnosis early_exit_of(const NodeRank& early, const NodeRank& victim) {
  return {
      .cause = model::Cause::user_exit,
      .reason = format("{} exited with code 0 before the others; rank {} then {}",
                       describe_node_rank(early), victim.rank->rank, describe_end(*victim.rank)),
      .rank = victim.rank->rank};
}

// The agent restarted the rank, but the others finished the training before it could join them.
AttemptDiagnosis diagnose_late_restart(const NodeRank& late) {
  return {.cause = model::Cause::rank_lost,
          .reason = format("{} was started again after a loss and found no rank to join{}",
                           describe_node_rank(late), fault_text_suffix(*late.rank))};
}

AttemptDiagnosis lost_connection_of(const FaultLink& link, const NodeRanks& ranks) {
  AttemptDiagnosis diagnosis;
  diagnosis.cause = model::Cause::rank_lost;
  diagnosis.rank = link.from.rank->rank;
  if (link.to)
    diagnosis.reason =
        format("the connection from {} to {} was lost; rank {} had not ended",
               describe_node_rank(link.from), describe_node_rank(*link.to), link.to->rank->rank);
  else
    diagnosis.reason = format("{} lost a connection{}", describe_node_rank(link.from),
                              fault_text_suffix(*link.from.rank));
  if (std::ranges::any_of(
          ranks, [](const NodeRank& s) { return s.rank->state == model::RankState::running; }))
    diagnosis.provisional_since = link.from.rank->ended;
  return diagnosis;
}

AttemptDiagnosis time_out_of(const FaultLink& link) {
  if (!link.to)
    return {.cause = model::Cause::hung,
            .reason = format("{} timed out{}", describe_node_rank(link.from),
                             fault_text_suffix(*link.from.rank)),
            .rank = link.from.rank->rank};
  const auto activity = describe_activity(link.to->rank->activity);
  return {
      .cause = model::Cause::hung,
      .reason = format("{} hangs: rank {} timed out waiting for it{}{}{}",
                       describe_node_rank(*link.to), link.from.rank->rank,
                       fault_text_suffix(*link.from.rank), activity.empty() ? "" : "; ", activity),
      .is_independent = link.to->rank->activity == model::Activity::stopped,
      .rank = link.from.rank->rank};
}

// Diagnosis when the first failed rank has reported a fault of a peer.
AttemptDiagnosis diagnose_peer_fault(const NodeRanks& ranks, const NodeRank& first) {
  const FaultLink link = follow_fault_links(ranks, first);
  const auto failed = [](const model::Rank& rank) {
    return model::ended_badly(rank) && !ended_by_peer_fault(rank);
  };
  const auto early = [&](const model::Rank& rank) {
    return ended_well(rank) && rank.ended <= first.rank->ended;
  };
  if (!link.to)
    if (const auto other = earliest_that(ranks, failed)) return end_of(*other);
  if (!link.to)
    if (const auto other = earliest_that(ranks, early))
      return first.rank->restarts > 0 ? diagnose_late_restart(first) : early_exit_of(*other, first);
  if (link.to && failed(*link.to->rank)) return end_of(*link.to);
  if (link.to && ended_well(*link.to->rank)) return early_exit_of(*link.to, first);
  return link.from.rank->fault == report::Fault::timed_out ? time_out_of(link)
                                                           : lost_connection_of(link, ranks);
}

// Another run or attempt writes to its checkpoint folder.
std::optional<AttemptDiagnosis> diagnose_fencing(const model::Attempt& attempt,
                                                 const NodeRanks& ranks) {
  const auto by = [&](report::Fault fault) {
    return earliest_that(
        ranks, [fault](const model::Rank& rank) { return ended_with_fault(rank, fault); });
  };
  if (const auto fenced = by(report::Fault::superseded))
    return AttemptDiagnosis{
        .cause = model::Cause::superseded,
        .reason = describe_node_rank(*fenced) + " had to end" + fault_text_suffix(*fenced->rank),
        .is_independent = true};
  if (const auto refused = by(report::Fault::refused))
    return AttemptDiagnosis{
        .cause = model::Cause::refused,
        .reason = format("{} was refused: {}", text(attempt.id.run), refused->rank->fault_text),
        .is_independent = true};
  return std::nullopt;
}

}  // namespace

std::optional<AttemptDiagnosis> diagnose_attempt(const model::Attempt& attempt,
                                                 const std::vector<const model::Node*>& nodes,
                                                 Duration hang_after, model::OnFailure on_failure) {
  NodeRanks ranks = all_ranks(nodes);
  if (on_failure == model::OnFailure::shrink && continues_without_killed(ranks))
    std::erase_if(ranks, [](const NodeRank& node_rank) {
      return node_rank.rank->state == model::RankState::killed &&
             !node_rank.rank->signalled_by_agent;
    });
  const bool stalled = std::ranges::any_of(
      ranks, [](const NodeRank& node_rank) { return node_rank.rank->stalled_since.has_value(); });
  const auto bad_end = first_failed_rank(attempt, ranks, first_end_by_agent(nodes));
  const auto hanging = hanging_rank(attempt, ranks);
  if (auto fencing = diagnose_fencing(attempt, ranks)) return fencing;
  if (bad_end && hanging && is_stopped_or_blocked(*hanging->rank) &&
      exited_or_aborted(*bad_end->rank))
    return hang_of(*hanging, stalled, hang_after);
  if (bad_end && ended_by_peer_fault(*bad_end->rank)) return diagnose_peer_fault(ranks, *bad_end);
  if (bad_end) return end_of(*bad_end);
  if (stalled && hanging) return hang_of(*hanging, stalled, hang_after);
  return std::nullopt;
}

std::optional<Time> first_end_by_agent(const std::vector<const model::Node*>& nodes) {
  std::optional<Time> first;
  for (const auto& [node, rank] : all_ranks(nodes))
    if (rank->signalled_by_agent && rank->ended)
      first = std::min(first.value_or(*rank->ended), *rank->ended);
  return first;
}

bool is_crash(int signal) {
  return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGFPE ||
         signal == SIGILL || signal == SIGSYS || signal == SIGTRAP;
}

bool crashed_alike(const std::vector<const model::Node*>& nodes, const RankKill& kill) {
  const auto found = find_rank(all_ranks(nodes), kill.rank);
  if (!found) return false;
  const model::Rank& rank = *found->rank;
  return model::ended_badly(rank) && rank.state == model::RankState::killed &&
         is_crash(rank.code) && !ended_by_peer_fault(rank) &&
         RankKill{rank.rank, rank.code, rank.step} == kill;
}

bool is_from_diagnosis(model::Cause cause) {
  return cause == model::Cause::user_exit || cause == model::Cause::rank_lost ||
         cause == model::Cause::hung;
}

}  // namespace lockstep::step
