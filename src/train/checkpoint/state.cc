#include "train/checkpoint/state.h"

#include <array>
#include <iterator>
#include <utility>

#include "base/format.h"

namespace lockstep::train {
namespace {

constexpr std::array<std::pair<at::ScalarType, ElementType>, 10> kTypes{{
    {at::kFloat, ElementType::float32},
    {at::kDouble, ElementType::float64},
    {at::kHalf, ElementType::float16},
    {at::kBFloat16, ElementType::bfloat16},
    {at::kLong, ElementType::int64},
    {at::kInt, ElementType::int32},
    {at::kShort, ElementType::int16},
    {at::kChar, ElementType::int8},
    {at::kByte, ElementType::uint8},
    {at::kBool, ElementType::boolean},
}};

}  // namespace

std::optional<ElementType> element_type(at::ScalarType type) {
  for (const auto& [torch, ours] : kTypes)
    if (torch == type) return ours;
  return std::nullopt;
}

Result<OwnedTensor> whole(std::string name, const at::Tensor& tensor) {
  if (!tensor.is_contiguous())
    return Error{Code::invalid,
                 lockstep::format("{} is not contiguous: make it so before sharding", name)};
  return OwnedTensor{
      std::move(name), tensor.sizes().vec(), {0, tensor.numel()}, tensor.detach().view({-1})};
}

TrainingState state_of(std::int64_t step, const ShardedModel& model, const Optimizer& optimizer,
                       const Sampler& sampler) {
  TrainingState state;
  state.step = step;
  state.optimizer = optimizer.method();
  state.optimizer_steps = optimizer.steps();
  state.sampler = sampler.state();
  state.tensors = model.state();
  state.snapshot_copies = model.snapshot_copies();
  auto more = optimizer.state();
  std::move(more.begin(), more.end(), std::back_inserter(state.tensors));
  return state;
}

}  // namespace lockstep::train
