#include "train/optimizer/whole_parameters.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

namespace lockstep::train {
namespace {

// This rank's elements of a parameter in a tensor like its unit's slice.
at::Tensor part_of(const ShardedModel& model, const at::Tensor& slice_like, std::size_t parameter) {
  return Unit::owned_view(slice_like, model.layout(), static_cast<int>(parameter));
}

at::Tensor elements_of(const at::Tensor& whole, const Interval& interval) {
  return whole.view(-1).narrow(0, interval.begin, interval.size());
}

std::int64_t count_elements(const std::vector<at::Tensor>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0},
                         [](auto sum, const at::Tensor& one) { return sum + one.numel(); });
}

// Takes one tensor after the other from a flat one.
class Reader {
 public:
  explicit Reader(at::Tensor flat) : flat_(std::move(flat)) {}
  at::Tensor next(std::int64_t elements) {
    return flat_.narrow(0, std::exchange(position_, position_ + elements), elements);
  }

 private:
  at::Tensor flat_;
  std::int64_t position_ = 0;
};

}  // namespace

Result<WholeParameters> WholeParameters::create(ShardedModel& model) {
  auto& mesh = model.mesh();
  const auto& policy = model.policy();
  auto& group = policy.optimizer == policy.gradients ? mesh.shard() : mesh.world();
  const auto& unit = model.layout().units.front();
  WholeParameters whole(model, group);
  for (const auto slice :
       TRY(group.all_gather(unit.slice.begin / unit.slice.size(), "which rank has which slice")))
    whole.slices_.push_back(static_cast<int>(slice));
  return whole;
}

// An exchange for each type, in the order in which the types first occur.
std::vector<WholeParameters::Exchange> WholeParameters::plan(
    const std::vector<OwnedParameter>& parameters) const {
  const auto& layout = model_->layout();
  std::vector<Exchange> exchanges;
  for (const auto& [parameter, owner] : parameters) {
    const auto type = model_->unit_of(parameter).master().scalar_type();
    auto exchange = std::find_if(exchanges.begin(), exchanges.end(),
                                 [&](const auto& one) { return one.type == type; });
    if (exchange == exchanges.end())
      exchange = exchanges.insert(exchange, {type, std::vector<Pieces>(slices_.size()),
                                             std::vector<Pieces>(slices_.size())});
    for (std::size_t rank = 0; rank < slices_.size(); ++rank) {
      if (slices_[rank] == owner)
        exchange->held[rank].push_back({parameter, layout.part_in_slice(parameter, own_slice())});
      if (own_slice() == owner)
        exchange->owned[rank].push_back(
            {parameter, layout.part_in_slice(parameter, slices_[rank])});
    }
  }
  return exchanges;
}

Result<std::map<std::size_t, WholeParameters::Whole>> WholeParameters::gather(
    const std::vector<OwnedParameter>& parameters) {
  const at::NoGradGuard no_grad;
  std::map<std::size_t, Whole> owned;
  for (const auto& [parameter, owner] : parameters) {
    if (owner != own_slice()) continue;
    const auto& shape = model_->layout().parameters[parameter].spec.shape;
    const auto options = model_->unit_of(parameter).master().options();
    owned[parameter] = {at::empty(shape, options), at::empty(shape, options)};
  }
  for (const auto& exchange : plan(parameters)) TRY(send(exchange, owned));
  return owned;
}

Result<void> WholeParameters::return_values(const std::vector<OwnedParameter>& parameters,
                                            const std::map<std::size_t, Whole>& owned) {
  const at::NoGradGuard no_grad;
  for (const auto& exchange : plan(parameters)) TRY(send_back(exchange, owned));
  return {};
}

Result<void> WholeParameters::send(const Exchange& exchange, std::map<std::size_t, Whole>& owned) {
  std::vector<std::vector<at::Tensor>> to_ranks;
  for (const auto& pieces : exchange.held) {
    auto& tensors = to_ranks.emplace_back();
    for (const auto& [parameter, interval] : pieces) {
      const auto& unit = model_->unit_of(parameter);
      tensors.push_back(part_of(*model_, unit.master(), parameter));
      tensors.push_back(part_of(*model_, unit.gradient_slice(), parameter));
    }
  }
  std::vector<std::int64_t> received;
  for (const auto& pieces : exchange.owned) {
    received.push_back(0);
    for (const auto& piece : pieces) received.back() += 2 * piece.interval.size();
  }
  Reader reader(TRY(exchange_tensors(to_ranks, received, exchange.type,
                                     "parameters and gradients for the optimizer")));
  for (const auto& pieces : exchange.owned)
    for (const auto& [parameter, interval] : pieces) {
      elements_of(owned[parameter].value, interval).copy_(reader.next(interval.size()));
      elements_of(owned[parameter].gradient, interval).copy_(reader.next(interval.size()));
    }
  return {};
}

Result<void> WholeParameters::send_back(const Exchange& exchange,
                                        const std::map<std::size_t, Whole>& owned) {
  std::vector<std::vector<at::Tensor>> to_ranks;
  for (const auto& pieces : exchange.owned) {
    auto& tensors = to_ranks.emplace_back();
    for (const auto& [parameter, interval] : pieces)
      tensors.push_back(elements_of(owned.at(parameter).value, interval));
  }
  std::vector<std::int64_t> received;
  for (const auto& pieces : exchange.held) {
    received.push_back(0);
    for (const auto& piece : pieces) received.back() += piece.interval.size();
  }
  Reader reader(
      TRY(exchange_tensors(to_ranks, received, exchange.type, "parameters after the step")));
  for (const auto& pieces : exchange.held)
    for (const auto& [parameter, interval] : pieces)
      part_of(*model_, model_->unit_of(parameter).master(), parameter)
          .copy_(reader.next(interval.size()));
  return {};
}

Result<at::Tensor> WholeParameters::exchange_tensors(
    const std::vector<std::vector<at::Tensor>>& to_ranks, const std::vector<std::int64_t>& received,
    at::ScalarType type, std::string_view label) {
  const auto options = at::TensorOptions(model_->device()).dtype(type);
  std::vector<std::int64_t> sizes;
  std::vector<at::Tensor> all;
  for (const auto& tensors : to_ranks) {
    sizes.push_back(count_elements(tensors));
    all.insert(all.end(), tensors.begin(), tensors.end());
  }
  const auto sent = all.empty() ? at::empty({0}, options) : at::cat(all);
  const auto total = std::accumulate(received.begin(), received.end(), std::int64_t{0});
  auto result = at::empty({total}, options);
  TRY(group_->all_to_all(result, received, sent, sizes, label).wait());
  return result;
}

}  // namespace lockstep::train
