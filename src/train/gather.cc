#include "train/gather.h"

#include <utility>

#include <ATen/core/grad_mode.h>

#include "base/format.h"

namespace lockstep {
namespace {

Result<void> wait_for(std::vector<Transfer>& transfers) {
  // All are waited for, so that none still writes when the first error is told.
  Result<void> outcome;
  for (auto& transfer : transfers) {
    auto done = transfer.wait();
    if (outcome && !done) outcome = std::move(done);
  }
  return outcome;
}

std::string parameters_label(const Unit& unit) {
  return format("parameters of unit {}", unit.index());
}

}  // namespace

Gathers::Gathers(std::vector<Unit>& units, int blocks, const Policy& policy, Mesh& mesh,
                 Buffers& buffers, RollCall& roll_call, FirstError& error)
    : units_(units),
      keep_(policy.keep),
      mesh_(mesh),
      buffers_(buffers),
      roll_call_(roll_call),
      error_(error),
      units_of_(static_cast<std::size_t>(blocks)),
      under_way_(units.size()),
      after_(units_of_.size(), kNone),
      before_(units_of_.size(), kNone) {
  for (const auto& unit : units)
    if (unit.divided()) units_of_[static_cast<std::size_t>(unit.block())].push_back(unit.index());
}

void Gathers::enter(int block, bool backward_follows) {
  if (backward_follows) record(block);
  need(block, after_);
}

void Gathers::leave(int block, bool backward_follows) {
  if (keep_ && backward_follows) return;
  for (int unit : units_of_[static_cast<std::size_t>(block)])
    release(units_[static_cast<std::size_t>(unit)]);
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
    unit.hold(buffers_.take());
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
  buffers_.give_back(unit.release());
}

void Gathers::end_pass() {
  for (auto& unit : units_) release(unit);
  last_ = kNone;
}

Result<void> Gathers::spread() {
  const at::NoGradGuard no_grad;
  for (auto& unit : units_) unit.round_master();
  TRY(spread_over_replicas());
  return spread_over_shards();
}

Result<void> Gathers::spread_over_replicas() {
  std::vector<Transfer> transfers;
  for (const auto& unit : units_)
    if (unit.slice().numel() < unit.shard().numel())
      transfers.push_back(
          mesh_.replicate().gather(unit.shard(), unit.slice(), parameters_label(unit)));
  return wait_for(transfers);
}

Result<void> Gathers::spread_over_shards() {
  std::vector<Transfer> transfers;
  for (const auto& unit : units_)
    if (!unit.divided() && unit.shard().numel() < unit.whole().numel())
      transfers.push_back(mesh_.shard().gather(unit.whole(), unit.shard(), parameters_label(unit)));
  return wait_for(transfers);
}

}  // namespace lockstep
