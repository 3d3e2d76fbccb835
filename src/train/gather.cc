#include "train/gather.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "base/format.h"

namespace lockstep {
namespace {

std::string parameters_label(const Unit& unit) {
  return format("parameters of unit {}", unit.index());
}

}  // namespace

Gathers::Gathers(std::vector<Unit>& units, const Layout& layout, int blocks, const Policy& policy,
                 Mesh& mesh, Pools pools, RollCall& roll_call, FirstError& error)
    : units_(units),
      keep_(policy.keep),
      mesh_(mesh),
      pools_(pools),
      roll_call_(roll_call),
      error_(error),
      units_of_(static_cast<std::size_t>(blocks)),
      wholes_of_(units_of_.size()),
      blocks_of_(units.size()),
      under_way_(units.size()),
      spreading_(units.size()),
      ran_(units_of_.size()),
      after_(units_of_.size(), kNone),
      before_(units_of_.size(), kNone) {
  for (const auto& unit : units) {
    if (unit.divided()) units_of_[static_cast<std::size_t>(unit.block())].push_back(unit.index());
    const auto index = static_cast<std::size_t>(unit.index());
    for (const int parameter : layout.units[index].parameters) {
      const int block = layout.parameters[static_cast<std::size_t>(parameter)].spec.block;
      blocks_of_[index].push_back(block);
      if (unit.divided() || block == ParameterSpec::kRoot) continue;
      wholes_of_[static_cast<std::size_t>(block)].push_back(unit.index());
    }
  }
}

void Gathers::enter(int block, bool backward_follows) {
  if (backward_follows) record(block);
  need(block, after_);
}

void Gathers::leave(int block, bool backward_follows) {
  if (keep_ && backward_follows) return;
  release(block);
}

void Gathers::enter_backward(int block) { need(block, before_); }

void Gathers::record(int block) {
  if (last_ != kNone) {
    after_[static_cast<std::size_t>(last_)] = block;
    before_[static_cast<std::size_t>(block)] = last_;
  }
  last_ = block;
}

void Gathers::need(int block, const std::vector<int>& successors) {
  const at::NoGradGuard no_grad;
  fetch(block);
  fetch_ahead(block, successors);
  for (int unit : units_of_[static_cast<std::size_t>(block)]) {
    auto& transfer = under_way_[static_cast<std::size_t>(unit)];
    if (transfer) error_.note(transfer->wait());
    transfer.reset();
  }
}

void Gathers::fetch_ahead(int block, const std::vector<int>& successors) {
  for (int i = 0; i < kAhead; ++i) {
    block = successors[static_cast<std::size_t>(block)];
    if (block == kNone) return;
    fetch(block);
  }
}

// The memory is there also after an error: whoever computes with it must not fall over its lack.
void Gathers::fetch(int block) {
  for (int i : units_of_[static_cast<std::size_t>(block)]) {
    auto& unit = units_[static_cast<std::size_t>(i)];
    if (unit.has_memory()) continue;
    settle(unit);
    unit.hold(pool_of(unit).take());
    if (!error_.happened()) error_.note(roll_call_.announce(RollCall::Act::gather, i));
    if (error_.happened()) continue;
    under_way_[static_cast<std::size_t>(i)] =
        mesh_.shard().gather(unit.whole(), unit.shard(), parameters_label(unit));
  }
}

void Gathers::release(Unit& unit) {
  if (!unit.divided() || !unit.has_memory()) return;
  auto& transfer = under_way_[static_cast<std::size_t>(unit.index())];
  if (transfer) error_.note(transfer->wait());
  transfer.reset();
  pool_of(unit).give_back(unit.release());
}

void Gathers::release(int block) {
  for (int unit : units_of_[static_cast<std::size_t>(block)])
    release(units_[static_cast<std::size_t>(unit)]);
}

void Gathers::end_pass() {
  for (auto& unit : units_) release(unit);
  last_ = kNone;
}

bool Gathers::from_replicas(const Unit& unit) const {
  return unit.slice().numel() < unit.shard().numel();
}

bool Gathers::from_shards(const Unit& unit) const {
  return !unit.divided() && unit.shard().numel() < unit.whole().numel();
}

// Units stand in the order of backward.
void Gathers::begin_spread() {
  const at::NoGradGuard no_grad;
  settle();
  for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
    unit->round_master();
    auto& transfer = spreading_[static_cast<std::size_t>(unit->index())];
    if (from_replicas(*unit))
      transfer = mesh_.replicate().gather(unit->shard(), unit->slice(), parameters_label(*unit));
    else if (from_shards(*unit))
      transfer = mesh_.shard().gather(unit->whole(), unit->shard(), parameters_label(*unit));
  }
  for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
    if (!from_replicas(*unit) || !from_shards(*unit)) continue;
    settle(*unit);
    spreading_[static_cast<std::size_t>(unit->index())] =
        mesh_.shard().gather(unit->whole(), unit->shard(), parameters_label(*unit));
  }
  for (auto& unit : units_)
    if (!unit.divided() && !ran(unit)) settle(unit);
  std::fill(ran_.begin(), ran_.end(), false);
}

// Whether all of the unit is of blocks that ran, and so will be waited for when they run again.
bool Gathers::ran(const Unit& unit) const {
  const auto& blocks = blocks_of_[static_cast<std::size_t>(unit.index())];
  return std::all_of(blocks.begin(), blocks.end(), [&](int block) {
    return block != ParameterSpec::kRoot && ran_[static_cast<std::size_t>(block)];
  });
}

void Gathers::settle(Unit& unit) {
  auto& transfer = spreading_[static_cast<std::size_t>(unit.index())];
  if (transfer) error_.note(transfer->wait());
  transfer.reset();
}

void Gathers::settle(int block) {
  const auto index = static_cast<std::size_t>(block);
  ran_[index] = true;
  for (const auto* units : {&units_of_[index], &wholes_of_[index]})
    for (int unit : *units) settle(units_[static_cast<std::size_t>(unit)]);
}

void Gathers::settle() {
  for (auto& unit : units_) settle(unit);
}

}  // namespace lockstep
