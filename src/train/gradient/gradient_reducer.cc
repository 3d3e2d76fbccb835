#include "train/gradient/gradient_reducer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "base/format.h"
#include "train/gradient/copy_gradient.h"

namespace lockstep::train {
namespace {

std::string gradients_label(const Unit& unit) {
  return format("gradients of unit {}", unit.index());
}

}  // namespace

GradientReducer::GradientReducer(std::vector<Unit>& units, Mesh& mesh, BufferPool& wholes,
                                 CollectiveOrderChecker& roll_call, NonFiniteDetector& looks,
                                 FirstError& error, ParameterWorker* worker)
    : units_(units),
      mesh_(mesh),
      unsharded_pool_(wholes),
      order_checker_(roll_call),
      non_finite_detector_(looks),
      error_(error),
      worker_(worker),
      streams_(units.front().shard().device()) {}

void GradientReducer::begin(int micro_step, bool last, int divisor) {
  micro_step_ = micro_step;
  last_ = last;
  divisor_ = divisor;
  begun_ = 0;
  for (auto& unit : units_) unit.expect_all();
  if (worker_ && last) error_.note(worker_->begin_push());
}

void GradientReducer::on_gradient(Unit& unit, std::size_t member) {
  const at::NoGradGuard no_grad;
  streams_.join();
  if (hop1_ && hop1_->transfer.done()) end_hop1();  // so that hop 2 need not wait for a whole unit
  if (mesh_.shard().size() > 1 && !unit.has_gradient_buffer())
    unit.attach_gradient_buffer(unsharded_pool_.acquire());
  store_gradient(unit, member);
  unit.count_gradient();
  // Frozen units come after all others.
  while (begun_ < units_.size() && units_[begun_].trainable() && units_[begun_].complete())
    start(units_[begun_++]);
}

void GradientReducer::store_gradient(Unit& unit, std::size_t member) {
  if (mesh_.shard().size() > 1) {
    unit.store_gradient(member, [&](const at::Tensor& to, const at::Tensor& from) {
      if (micro_step_ == 1) return copy_gradient(to, from);
      add_to_sum(unit, to, from);
    });
  } else if (const int parts = mesh_.world_size() * divisor_; last_ && parts > 1) {
    unit.store_gradient(member, [&](const at::Tensor& to, const at::Tensor& from) {
      non_finite_detector_.divide_and_check(
          {NonFiniteDetector::Kind::gradients, unit.index(), micro_step_}, to, from, parts);
    });
  } else {
    unit.store_gradient(member, copy_gradient);
  }
}

// Adds the sum of the earlier micro-steps to the part that is this rank's shard, in the same pass.
void GradientReducer::add_to_sum(const Unit& unit, const at::Tensor& to, const at::Tensor& from) {
  const auto& sum = unit.gradient_shard();
  const auto shard_begin = mesh_.shard().rank() * sum.numel();
  const auto offset = to.storage_offset() - unit.gradients().storage_offset();
  const auto inside = [&](std::int64_t element) {
    return std::clamp(element - offset, std::int64_t{0}, to.numel());
  };
  const auto begin = inside(shard_begin);
  const auto end = inside(shard_begin + sum.numel());
  const auto flat_to = to.view(-1);
  const auto flat_from = from.defined() ? dense_form(from).reshape(-1) : from;
  const auto part = [](const at::Tensor& flat, std::int64_t first, std::int64_t last) {
    return flat.defined() ? flat.narrow(0, first, last - first) : flat;
  };
  copy_gradient(part(flat_to, 0, begin), part(flat_from, 0, begin));
  copy_gradient(part(flat_to, end, to.numel()), part(flat_from, end, to.numel()));
  if (begin == end) return;
  copy_sum(part(flat_to, begin, end), part(flat_from, begin, end),
           part(sum, offset + begin - shard_begin, offset + end - shard_begin));
}

void GradientReducer::start(Unit& unit) {
  if (mesh_.shard().size() > 1)
    start_hop1(unit);
  else if (last_)
    start_hop2(unit);
}

void GradientReducer::start_hop1(Unit& unit) {
  end_hop1();
  if (!error_.happened())
    error_.note(
        order_checker_.record_action(CollectiveOrderChecker::OrderedAction::reduce, unit.index()));
  if (error_.happened()) return unsharded_pool_.release(unit.detach_gradient_buffer());
  const auto& sum = unit.gradient_shard();
  auto& group = mesh_.shard();
  hop1_ = Hop1{&unit, group.reduce_scatter(sum, unit.gradients(), gradients_label(unit))};
  // Until the first unit has reached hop 2 the links to the replicas are idle.
  if (last_ && mesh_.replicate().size() > 1 && hop2_.empty()) end_hop1();
}

void GradientReducer::end_hop1() {
  if (!hop1_) return;
  auto [unit, transfer] = *std::exchange(hop1_, std::nullopt);
  error_.note(transfer.wait());
  unsharded_pool_.release(unit->detach_gradient_buffer());
  if (last_) start_hop2(*unit);
}

// Gradients are divided here, or while they are copied into the flat buffer, and nowhere else: once
// a step, where they are smallest. Sums have 32 bits at least. This is the last check of this
// replica's own gradients.
void GradientReducer::start_hop2(Unit& unit) {
  const auto& shard = unit.gradient_shard();
  if (mesh_.shard().size() > 1)
    non_finite_detector_.divide_and_check(
        {NonFiniteDetector::Kind::gradients, unit.index(), micro_step_}, shard, shard,
        mesh_.world_size() * divisor_);
  if (worker_ && !error_.happened()) error_.note(worker_->push(unit));
  if (mesh_.replicate().size() == 1 || error_.happened()) return;
  const auto& slice = unit.gradient_slice();
  hop2_.push_back(slice.numel() < shard.numel()
                      ? mesh_.replicate().reduce_scatter(slice, shard, gradients_label(unit))
                      : mesh_.replicate().all_reduce(shard, ReduceOp::sum, gradients_label(unit)));
}

void GradientReducer::end() {
  const at::NoGradGuard no_grad;
  streams_.join();
  end_hop1();
}

// Waits for all of them, so that none still writes when the first error is returned.
Result<void> GradientReducer::finish() {
  streams_.join();
  for (auto& transfer : hop2_) error_.note(transfer.wait());
  hop2_.clear();
  return error_.outcome();
}

}  // namespace lockstep::train
