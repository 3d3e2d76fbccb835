#include "train/checkpoint/state.h"

#include <array>
#include <iterator>
#include <utility>

#include "base/format.h"

namespace lockstep::train {
namespace {

constexpr std::array<std::pair<at::ScalarType, DataType>, 10> kTypes{{
    {at::kFloat, DataType::float32},
    {at::kDouble, DataType::float64},
    {at::kHalf, DataType::float16},
    {at::kBFloat16, DataType::bfloat16},
    {at::kLong, DataType::int64},
    {at::kInt, DataType::int32},
    {at::kShort, DataType::int16},
    {at::kChar, DataType::int8},
    {at::kByte, DataType::uint8},
    {at::kBool, DataType::boolean},
}};

}  // namespace

std::optional<DataType> data_type_of(at::ScalarType type) {
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
