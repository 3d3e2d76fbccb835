#include "platform/agent/core/rank_records.h"

#include <algorithm>
#include <chrono>

#include "base/format.h"

namespace lockstep::agent {
namespace {

// An earlier network error in a rank's output does not explain its end.
constexpr Duration kPrintedFaultCounts = std::chrono::minutes(1);

constexpr auto kOutOfMemory = "out of memory: the kernel ended it";

bool is_running(const model::Rank& rank) { return rank.state == model::RankState::running; }

void reset_fault(model::Rank& rank) {
  rank.fault = report::Fault::none;
  rank.fault_rank = -1;
  rank.fault_text.clear();
}

// Only a node with a limit is to blame: without one, other programs may have filled the memory.
void record_out_of_memory(model::Rank& rank, Bytes limit) {
  reset_fault(rank);
  rank.fault_text = kOutOfMemory;
  if (limit == Bytes(0)) return;
  rank.fault = report::Fault::out_of_memory;
  rank.fault_text =
      format("the node used more than its {} of memory; ask for more with --memory", text(limit));
}

}  // namespace

// Null if the rank has ended, or if another program uses the socket of a rank before the start.
model::Rank* RankRecords::running(int local_rank) {
  if (local_rank >= static_cast<int>(ranks_.size())) return nullptr;
  model::Rank& rank = ranks_[static_cast<std::size_t>(local_rank)];
  return is_running(rank) ? &rank : nullptr;
}

void RankRecords::add(std::int64_t pid) {
  model::Rank rank;
  rank.local_rank = static_cast<int>(ranks_.size());
  rank.rank = first_rank_ + rank.local_rank;
  rank.pid = pid;
  ranks_.push_back(rank);
}

void RankRecords::record_end(const RankEnd& end, Duration moment) {
  model::Rank* rank = running(end.local_rank);
  if (rank == nullptr) return;
  const auto printed = printed_faults_.find(rank->local_rank);
  if (printed != printed_faults_.end() && moment - printed->second > kPrintedFaultCounts)
    reset_fault(*rank);
  rank->state = end.state;
  rank->code = end.code;
  if (end.out_of_memory && !signalled_) record_out_of_memory(*rank, end.memory_limit);
  rank->signalled_by_agent = signalled_;
  rank->ended = zero_ + moment;
  progress_watch_.remove_rank(rank->local_rank);
  if (!signalled_) rank->stalled_since.reset();
}

void RankRecords::record_restart(int local_rank, std::int64_t pid) {
  model::Rank& rank = ranks_.at(static_cast<std::size_t>(local_rank));
  model::Rank next{.rank = rank.rank, .local_rank = local_rank, .pid = pid};
  next.step = rank.step;
  next.restarts = rank.restarts + 1;
  rank = next;
}

void RankRecords::record_progress(const ProgressReported& report, Duration moment) {
  if (report.local_rank >= static_cast<int>(ranks_.size())) return;
  model::Rank& rank = ranks_[static_cast<std::size_t>(report.local_rank)];
  if (report.step > rank.step) {
    reset_fault(rank);
    printed_faults_.erase(report.local_rank);
  }
  rank.step = std::max(rank.step, report.step);
  if (is_running(rank)) progress_watch_.record_progress(report.local_rank, moment);
}

bool RankRecords::record_fault(const FaultReported& report) {
  model::Rank* rank = running(report.local_rank);
  if (rank == nullptr) return false;
  if (rank->fault != report::Fault::none && !printed_faults_.contains(report.local_rank))
    return false;
  printed_faults_.erase(report.local_rank);
  rank->fault = report.fault;
  rank->fault_rank = report.fault_rank;
  rank->fault_text = report.text;
  return true;
}

void RankRecords::record_printed_fault(const FaultPrinted& printed, Duration moment) {
  model::Rank* rank = running(printed.local_rank);
  if (rank == nullptr) return;
  if (rank->fault != report::Fault::none && !printed_faults_.contains(printed.local_rank)) return;
  if (!printed_faults_.insert_or_assign(printed.local_rank, moment).second) return;
  rank->fault = printed.fault;
  rank->fault_text = printed.line;
}

bool RankRecords::update_stalled(Duration moment) {
  bool changed = false;
  for (model::Rank& rank : ranks_) {
    const auto silence = progress_watch_.time_without_progress(rank.local_rank, moment);
    if (!is_running(rank) || silence.has_value() == rank.stalled_since.has_value()) continue;
    rank.stalled_since = silence ? std::optional(zero_ + (moment - *silence)) : std::nullopt;
    changed = true;
  }
  return changed;
}

bool RankRecords::update_activities(const std::map<int, RankActivity>& activities) {
  bool changed = false;
  for (const auto& [local_rank, found] : activities) {
    model::Rank* rank = running(local_rank);
    if (rank == nullptr || found.activity == model::Activity::unknown) continue;
    const bool same = found.since && rank->activity == found.activity && rank->activity_since;
    changed = changed || (found.since ? !same : rank->activity_since.has_value());
    rank->activity = found.activity;
    if (!found.since) rank->activity_since.reset();
    if (found.since && !same) rank->activity_since = zero_ + *found.since;
  }
  return changed;
}

bool RankRecords::any_running() const { return std::ranges::any_of(ranks_, is_running); }

bool RankRecords::any_ended_badly() const {
  return std::ranges::any_of(ranks_, model::ended_badly);
}

bool RankRecords::any_failed() const {
  return std::ranges::any_of(ranks_, [](const model::Rank& rank) {
    return model::ended_badly(rank) && rank.state == model::RankState::exited;
  });
}

const model::Rank* RankRecords::first_stalled() const {
  const auto rank = std::ranges::find_if(
      ranks_, [](const model::Rank& each) { return is_running(each) && each.stalled_since; });
  return rank == ranks_.end() ? nullptr : &*rank;
}

}  // namespace lockstep::agent
