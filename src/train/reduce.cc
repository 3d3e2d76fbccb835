#include "train/reduce.h"

#include <utility>

#include <ATen/core/grad_mode.h>

#include "base/format.h"

namespace lockstep {
namespace {

std::string gradients_label(const Unit& unit) {
  return format("gradients of unit {}", unit.index());
}

}  // namespace

Reductions::Reductions(std::vector<Unit>& units, Mesh& mesh, Buffers& wholes, RollCall& roll_call,
                       FiniteLooks& looks, FirstError& error)
    : units_(units),
      mesh_(mesh),
      wholes_(wholes),
      roll_call_(roll_call),
      looks_(looks),
      error_(error) {}

void Reductions::begin(int micro_step, bool last, int divisor) {
  micro_step_ = micro_step;
  last_ = last;
  divisor_ = divisor;
  begun_ = 0;
  for (auto& unit : units_) unit.expect_all();
}

void Reductions::arrived(Unit& unit, std::size_t member) {
  const at::NoGradGuard no_grad;
  if (hop1_ && hop1_->transfer.done()) end_hop1();  // so that hop 2 need not wait for a whole unit
  if (mesh_.shard().size() > 1 && !unit.collecting()) unit.collect_into(wholes_.take());
  unit.take_gradient(member);
  unit.arrived();
  // Frozen units stand behind all others.
  while (begun_ < units_.size() && units_[begun_].trainable() && units_[begun_].complete())
    start(units_[begun_++]);
}

void Reductions::start(Unit& unit) {
  if (mesh_.shard().size() > 1)
    start_hop1(unit);
  else if (last_)
    start_hop2(unit);
}

void Reductions::start_hop1(Unit& unit) {
  end_hop1();
  if (!error_.happened()) error_.note(roll_call_.announce(RollCall::Act::reduce, unit.index()));
  if (error_.happened()) return wholes_.give_back(unit.end_collecting());
  const auto& sum = unit.gradient_shard();
  auto& group = mesh_.shard();
  if (micro_step_ > 1)
    unit.gradients().narrow(0, group.rank() * sum.numel(), sum.numel()).add_(sum);
  hop1_ = Hop1{&unit, group.reduce_scatter(sum, unit.gradients(), gradients_label(unit))};
}

void Reductions::end_hop1() {
  if (!hop1_) return;
  auto [unit, transfer] = *std::exchange(hop1_, std::nullopt);
  error_.note(transfer.wait());
  wholes_.give_back(unit->end_collecting());
  if (last_) start_hop2(*unit);
}

// Divided here and nowhere else: of a shard, once a step. Sums are of 32 bits at least. It is the
// last that is seen of this replica's own gradients.
void Reductions::start_hop2(Unit& unit) {
  auto shard = unit.gradient_shard();
  if (const int parts = mesh_.world_size() * divisor_; parts > 1)
    looks_.divide({FiniteLooks::Kind::gradients, unit.index(), micro_step_}, shard, parts);
  if (mesh_.replicate().size() == 1 || error_.happened()) return;
  const auto& slice = unit.gradient_slice();
  hop2_.push_back(slice.numel() < shard.numel()
                      ? mesh_.replicate().reduce_scatter(slice, shard, gradients_label(unit))
                      : mesh_.replicate().reduce(shard, Reduction::sum, gradients_label(unit)));
}

void Reductions::end() {
  const at::NoGradGuard no_grad;
  end_hop1();
}

// All are waited for, so that none still writes when the first error is told.
Result<void> Reductions::finish() {
  for (auto& transfer : hop2_) error_.note(transfer.wait());
  hop2_.clear();
  return error_.outcome();
}

}  // namespace lockstep
