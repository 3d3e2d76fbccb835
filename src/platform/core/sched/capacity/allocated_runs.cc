#include "platform/core/sched/capacity/allocated_runs.h"

#include <tuple>
#include <utility>

namespace lockstep::sched {

namespace {

AllocatedRuns::End end_of(const AllocatedRun& allocated_run) {
  return {allocated_run.expected_end, &allocated_run};
}

}  // namespace

std::int64_t device_count(const AllocatedRun& allocated_run) {
  std::int64_t devices = allocated_run.devices_at_engine;
  for (const HostAllocation& taken : allocated_run.allocations)
    devices += resources_of(taken).devices;
  return devices;
}

bool AllocatedRuns::End::operator<(const End& other) const {
  const auto key = [](const End& end) {
    const AllocatedRun& run = *end.allocated_run;
    return std::tie(end.time, run.run.number, run.run, run.is_move_destination);
  };
  return key(*this) < key(other);
}

void AllocatedRuns::add(AllocatedRun&& allocated_run) {
  const std::pair key(allocated_run.run, allocated_run.is_move_destination);
  const auto [added, is_new] = runs_.emplace(key, std::move(allocated_run));
  LS_CHECK(is_new);
  update_counts(added->second, 1);
  ends_.insert(end_of(added->second));
}

AllocatedRun AllocatedRuns::remove(const model::RunId& run, bool arriving) {
  const auto found = runs_.find({run, arriving});
  LS_CHECK(found != runs_.end());
  update_counts(found->second, -1);
  ends_.erase(end_of(found->second));
  AllocatedRun removed = std::move(found->second);
  runs_.erase(found);
  return removed;
}

std::optional<Time> AllocatedRuns::last_leaving() const {
  if (leaving_ == 0) return std::nullopt;
  std::optional<Time> last;
  for (const auto& [end, allocated_run] : by_end())
    if (allocated_run->leaving && !is_at_engine(*allocated_run)) last = end;
  return last;
}

void AllocatedRuns::update_counts(const AllocatedRun& allocated_run, int sign) {
  Sum& sum = sums_[static_cast<std::size_t>(allocated_run.run_class)];
  sum.devices += sign * device_count(allocated_run);
  at_engine_ += sign * int{is_at_engine(allocated_run)};
  if (is_at_engine(allocated_run)) return;
  leaving_ += sign * int{allocated_run.leaving};
  sum.runs += sign;
  movable_ += sign * int{allocated_run.moves_left > 0 && !allocated_run.leaving};
  pausable_ += sign * int{allocated_run.may_pause && !allocated_run.leaving};
}

}  // namespace lockstep::sched
