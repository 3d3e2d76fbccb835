#include "platform/core/sched/capacity/allocated_runs.h"

#include <utility>

namespace lockstep {

namespace {

AllocatedRuns::End end_of(const AllocatedRun& allocated_run) {
  return {allocated_run.expected_end, &allocated_run, allocated_run.run.number};
}

}  // namespace

std::int64_t device_count(const AllocatedRun& allocated_run) {
  std::int64_t devices = 0;
  for (const HostAllocation& taken : allocated_run.allocations)
    devices += resources_of(taken).devices;
  return devices;
}

bool AllocatedRuns::EndsSooner::operator()(const End& a, const End& b) const {
  if (a.time != b.time) return a.time < b.time;
  if (a.number != b.number) return a.number < b.number;
  if (a.allocated_run->run != b.allocated_run->run)
    return a.allocated_run->run < b.allocated_run->run;
  return a.allocated_run->is_move_destination < b.allocated_run->is_move_destination;
}

std::uint64_t AllocatedRuns::EndsSooner::prefix(const End& end) {
  return ordered_bits(end.time.time_since_epoch().count());
}

std::optional<int> AllocatedRuns::find(const RunId& run, bool arriving) const {
  return by_run_.find(hash_of(run), [&](int slot) {
    const AllocatedRun& allocated_run = at(slot);
    return allocated_run.run == run && allocated_run.is_move_destination == arriving;
  });
}

void AllocatedRuns::reserve(std::size_t count) {
  by_run_.reserve(count);
  ends_.reserve(count);
}

int AllocatedRuns::take_slot(AllocatedRun&& allocated_run) {
  if (!free_slots_.empty()) {
    const int slot = free_slots_.back();
    free_slots_.pop_back();
    at(slot) = std::move(allocated_run);
    return slot;
  }
  if (blocks_.empty() || blocks_.back().size() == kBlock) blocks_.emplace_back().reserve(kBlock);
  blocks_.back().push_back(std::move(allocated_run));
  return static_cast<int>((blocks_.size() - 1) * kBlock + blocks_.back().size()) - 1;
}

void AllocatedRuns::add(AllocatedRun&& allocated_run) {
  LS_CHECK(!contains(allocated_run.run, allocated_run.is_move_destination));
  const int slot = take_slot(std::move(allocated_run));
  const AllocatedRun& there = at(slot);
  by_run_.add(hash_of(there.run), slot);
  update_counts(there, 1);
  ends_.add(end_of(there));
}

AllocatedRun AllocatedRuns::remove(const RunId& run, bool arriving) {
  const auto slot = find(run, arriving);
  LS_CHECK(slot.has_value());
  AllocatedRun& there = at(*slot);
  update_counts(there, -1);
  ends_.remove(end_of(there));
  by_run_.remove(hash_of(run), *slot);
  free_slots_.push_back(*slot);
  return std::move(there);
}

std::optional<Time> AllocatedRuns::last_leaving() {
  if (leaving_ == 0) return std::nullopt;
  std::optional<Time> last;
  for (const auto& [end, allocated_run, _] : by_end())
    if (allocated_run->leaving) last = end;
  return last;
}

void AllocatedRuns::update_counts(const AllocatedRun& allocated_run, int sign) {
  Sum& sum = sums_[static_cast<std::size_t>(allocated_run.run_class)];
  sum.devices += sign * device_count(allocated_run);
  sum.runs += sign;
  leaving_ += sign * int{allocated_run.leaving};
  movable_ += sign * int{allocated_run.moves_left > 0 && !allocated_run.leaving};
  pausable_ += sign * int{allocated_run.may_pause && !allocated_run.leaving};
}

}  // namespace lockstep
