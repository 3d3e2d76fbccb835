#include "train/engine/parameter_gatherer.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "base/format.h"

namespace lockstep::train {
namespace {

std::string parameters_label(const Unit& unit) {
  return format("parameters of unit {}", unit.index());
}

}  // namespace

ParameterGatherer::ParameterGatherer(std::vector<Unit>& units, const Layout& layout, int blocks,
                                     const Policy& policy, Mesh& mesh, Pools pools,
                                     CollectiveOrderChecker& roll_call, FirstError& error,
                                     ParameterWorker* worker)
    : units_(units),
      keep_gathered_(policy.keep_gathered),
      mesh_(mesh),
      pools_(pools),
      order_checker_(roll_call),
      error_(error),
      worker_(worker),
      divided_units_of_(static_cast<std::size_t>(blocks)),
      undivided_units_of_(divided_units_of_.size()),
      blocks_of_(units.size()),
      gathers_in_flight_(units.size()),
      parameter_syncs_(units.size()),
      ran_since_sync_(divided_units_of_.size()),
      next_block_(divided_units_of_.size(), kNone),
      previous_block_(divided_units_of_.size(), kNone) {
  for (const auto& unit : units) {
    if (unit.divided())
      divided_units_of_[static_cast<std::size_t>(unit.block())].push_back(unit.index());
    const auto index = static_cast<std::size_t>(unit.index());
    for (const int parameter : layout.units[index].parameters) {
      const int block = layout.parameters[static_cast<std::size_t>(parameter)].spec.block;
      blocks_of_[index].push_back(block);
      if (unit.divided() || block == ParameterSpec::kRoot) continue;
      undivided_units_of_[static_cast<std::size_t>(block)].push_back(unit.index());
    }
  }
}

void ParameterGatherer::pre_forward(int block, bool backward_follows) {
  if (backward_follows) record_block_order(block);
  gather_and_wait(block, next_block_);
}

void ParameterGatherer::post_forward(int block, bool backward_follows) {
  if (keep_gathered_ && backward_follows) return;
  release(block);
}

void ParameterGatherer::pre_backward(int block) { gather_and_wait(block, previous_block_); }

void ParameterGatherer::record_block_order(int block) {
  if (last_ != kNone) {
    next_block_[static_cast<std::size_t>(last_)] = block;
    previous_block_[static_cast<std::size_t>(block)] = last_;
  }
  last_ = block;
}

void ParameterGatherer::gather_and_wait(int block, const std::vector<int>& successors) {
  const at::NoGradGuard no_grad;
  start_gather(block);
  prefetch(block, successors);
  for (int unit : divided_units_of_[static_cast<std::size_t>(block)]) {
    auto& transfer = gathers_in_flight_[static_cast<std::size_t>(unit)];
    if (transfer) error_.note(transfer->wait());
    transfer.reset();
  }
}

void ParameterGatherer::prefetch(int block, const std::vector<int>& successors) {
  for (int i = 0; i < kPrefetchedBlocks; ++i) {
    block = successors[static_cast<std::size_t>(block)];
    if (block == kNone) return;
    start_gather(block);
  }
}

// The memory is attached also after an error: a block that computes with it must not crash.
void ParameterGatherer::start_gather(int block) {
  for (int i : divided_units_of_[static_cast<std::size_t>(block)]) {
    auto& unit = units_[static_cast<std::size_t>(i)];
    if (unit.has_memory()) continue;
    wait_parameter_sync(unit);
    unit.attach_buffer(pool_of(unit).acquire());
    if (!error_.happened())
      error_.note(order_checker_.record_action(CollectiveOrderChecker::OrderedAction::gather, i));
    if (error_.happened()) continue;
    gathers_in_flight_[static_cast<std::size_t>(i)] =
        mesh_.shard().all_gather(unit.whole(), unit.shard(), parameters_label(unit));
  }
}

void ParameterGatherer::release(Unit& unit) {
  if (!unit.divided() || !unit.has_memory()) return;
  auto& transfer = gathers_in_flight_[static_cast<std::size_t>(unit.index())];
  if (transfer) error_.note(transfer->wait());
  transfer.reset();
  pool_of(unit).release(unit.detach_buffer());
}

void ParameterGatherer::release(int block) {
  for (int unit : divided_units_of_[static_cast<std::size_t>(block)])
    release(units_[static_cast<std::size_t>(unit)]);
}

void ParameterGatherer::release_all() {
  for (auto& unit : units_) release(unit);
  last_ = kNone;
}

bool ParameterGatherer::needs_replica_gather(const Unit& unit) const {
  return unit.slice().numel() < unit.shard().numel();
}

bool ParameterGatherer::needs_shard_gather(const Unit& unit) const {
  return !unit.divided() && unit.shard().numel() < unit.whole().numel();
}

void ParameterGatherer::begin_parameter_sync() {
  const at::NoGradGuard no_grad;
  wait_parameter_sync();
  worker_ ? start_pulls() : start_parameter_syncs();
  for (auto& unit : units_)
    if (!unit.divided() && !all_blocks_ran(unit)) wait_parameter_sync(unit);
  std::fill(ran_since_sync_.begin(), ran_since_sync_.end(), false);
}

// Units are in the order of backward.
void ParameterGatherer::start_parameter_syncs() {
  for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
    unit->round_master();
    auto& transfers = parameter_syncs_[static_cast<std::size_t>(unit->index())];
    if (needs_replica_gather(*unit))
      transfers.push_back(
          mesh_.replicate().all_gather(unit->shard(), unit->slice(), parameters_label(*unit)));
    else if (needs_shard_gather(*unit))
      transfers.push_back(
          mesh_.shard().all_gather(unit->whole(), unit->shard(), parameters_label(*unit)));
  }
  for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
    if (!needs_replica_gather(*unit) || !needs_shard_gather(*unit)) continue;
    wait_parameter_sync(*unit);
    parameter_syncs_[static_cast<std::size_t>(unit->index())].push_back(
        mesh_.shard().all_gather(unit->whole(), unit->shard(), parameters_label(*unit)));
  }
}

void ParameterGatherer::start_pulls() {
  if (!error_.happened()) error_.note(worker_->begin_pull());
  if (error_.happened()) return;
  for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit)
    parameter_syncs_[static_cast<std::size_t>(unit->index())] = worker_->pull(*unit);
}

// True if all of the unit's blocks have run, so that their next run waits for it.
bool ParameterGatherer::all_blocks_ran(const Unit& unit) const {
  const auto& blocks = blocks_of_[static_cast<std::size_t>(unit.index())];
  return std::all_of(blocks.begin(), blocks.end(), [&](int block) {
    return block != ParameterSpec::kRoot && ran_since_sync_[static_cast<std::size_t>(block)];
  });
}

void ParameterGatherer::wait_parameter_sync(Unit& unit) {
  auto& transfers = parameter_syncs_[static_cast<std::size_t>(unit.index())];
  for (auto& transfer : transfers) error_.note(transfer.wait());
  transfers.clear();
}

void ParameterGatherer::wait_parameter_sync(int block) {
  const auto index = static_cast<std::size_t>(block);
  ran_since_sync_[index] = true;
  for (const auto* units : {&divided_units_of_[index], &undivided_units_of_[index]})
    for (int unit : *units) wait_parameter_sync(units_[static_cast<std::size_t>(unit)]);
}

void ParameterGatherer::wait_parameter_sync() {
  for (auto& unit : units_) wait_parameter_sync(unit);
}

}  // namespace lockstep::train
