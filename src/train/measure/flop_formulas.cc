#include "train/measure/flop_formulas.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <unordered_map>
#include <vector>

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

namespace lockstep::train {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;
using Shape = at::IntArrayRef;

// Wrappers, such as DTensor, FakeTensor and those of vmap. Their shapes are not those of the work.
constexpr c10::DispatchKeySet kWrappers({c10::DispatchKey::Python,
                                         c10::DispatchKey::FuncTorchBatched,
                                         c10::DispatchKey::FuncTorchGradWrapper});

std::optional<Shape> shape_at(Inputs inputs, std::size_t index) {
  if (index >= inputs.size() || !inputs[index].isTensor()) return std::nullopt;
  const at::Tensor& tensor = inputs[index].toTensor();
  if (!tensor.defined() || tensor.is_nested() || tensor.layout() != at::kStrided ||
      tensor.key_set().has_any(kWrappers))
    return std::nullopt;
  return tensor.sizes();
}

double product(Shape sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 1.0,
                         [](double left, std::int64_t right) { return left * double(right); });
}

// Products of matrices, of batches of them, and of groups: (tokens, in) x (groups, in, out), or
// with the tokens as the last dimension. Each token is in one group.
std::optional<double> product_flops(Inputs inputs, std::size_t first) {
  const auto left = shape_at(inputs, first), right = shape_at(inputs, first + 1);
  if (!left || !right || left->size() < 2 || right->size() < 2) return std::nullopt;
  const bool has_grouped_columns = left->size() == 3 && right->size() == 2;
  const Shape rows = has_grouped_columns ? left->slice(1) : *left;
  return 2 * product(rows) * double(right->back());
}

std::optional<double> matrix_flops(Inputs inputs) { return product_flops(inputs, 0); }
std::optional<double> added_matrix_flops(Inputs inputs) { return product_flops(inputs, 1); }

// Each element of `positions` meets each weight once.
double convolution_flops_at(Shape positions, Shape weight) {
  return 2 * double(positions[0]) * product(positions.slice(2)) * product(weight);
}

// The size of an output in one dimension; `settings` are stride, padding and dilation.
std::int64_t output_size(std::int64_t input, std::int64_t kernel, Inputs settings,
                         std::size_t dimension) {
  const auto setting = [&](std::size_t index) {
    const auto values = settings[index].toIntList();
    return std::int64_t(values.get(std::min(dimension, values.size() - 1)));
  };
  return (input + 2 * setting(1) - setting(2) * (kernel - 1) - 1) / setting(0) + 1;
}

// (input, weight, bias, stride, padding, dilation, transposed, ...)
std::optional<double> convolution_flops(Inputs inputs) {
  const auto input = shape_at(inputs, 0), weight = shape_at(inputs, 1);
  if (!input || !weight || input->size() < 3 || input->size() != weight->size() ||
      inputs.size() < 7)
    return std::nullopt;
  if (inputs[6].toBool()) return convolution_flops_at(*input, *weight);
  const auto settings = inputs.slice(3, 3);
  if (!std::ranges::all_of(settings, &c10::IValue::isIntList)) return std::nullopt;
  std::vector<std::int64_t> output = input->vec();
  for (std::size_t i = 2; i < output.size(); ++i)
    output[i] = output_size((*input)[i], (*weight)[i], settings, i - 2);
  return convolution_flops_at(output, *weight);
}

// (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
// groups, output_mask). The gradient of the input has as many operations as the forward, and so has
// that of the weight.
std::optional<double> convolution_backward_flops(Inputs inputs) {
  const auto output = shape_at(inputs, 0), input = shape_at(inputs, 1);
  const auto weight = shape_at(inputs, 2);
  if (!output || !input || !weight || input->size() < 3 || inputs.size() < 11 ||
      !inputs[10].isBoolList())
    return std::nullopt;
  const auto wanted = inputs[10].toBoolList();
  const double forward = convolution_flops_at(inputs[7].toBool() ? *input : *output, *weight);
  return forward * (int(wanted.get(0)) + int(wanted.get(1)));
}

// Query (batch, heads, length, width), key and value: the scores, then their product with the
// value. Keys and values may have fewer heads, of which each serves several queries.
std::optional<double> attention_flops_at(Inputs inputs, std::size_t first) {
  const auto query = shape_at(inputs, first), key = shape_at(inputs, first + 1);
  const auto value = shape_at(inputs, first + 2);
  if (!query || !key || !value || query->size() != 4 || key->size() != 4 || value->size() != 4)
    return std::nullopt;
  const double scores = product(query->slice(0, 3)) * double((*key)[2]);
  return 2 * scores * double(query->back() + value->back());
}

std::optional<double> attention_flops(Inputs inputs) { return attention_flops_at(inputs, 0); }

// (grad_output, query, key, value, ...)
std::optional<double> attention_backward_flops(Inputs inputs) {
  auto forward = attention_flops_at(inputs, 1);
  if (forward) *forward *= 2;
  return forward;
}

using Formula = std::optional<double> (*)(Inputs);

const std::unordered_map<std::string_view, Formula>& formulas() {
  static const auto* const all = new std::unordered_map<std::string_view, Formula>{
      {"aten::mm", matrix_flops},
      {"aten::bmm", matrix_flops},
      {"aten::addmm", added_matrix_flops},
      {"aten::addmm_", added_matrix_flops},
      {"aten::_addmm_activation", added_matrix_flops},
      {"aten::baddbmm", added_matrix_flops},
      {"aten::baddbmm_", added_matrix_flops},
      {"aten::_scaled_mm", matrix_flops},
      {"aten::_grouped_mm", matrix_flops},
      {"aten::_scaled_grouped_mm", matrix_flops},
      {"aten::convolution", convolution_flops},
      {"aten::_convolution", convolution_flops},
      {"aten::convolution_backward", convolution_backward_flops},
      {"aten::_scaled_dot_product_flash_attention", attention_flops},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", attention_flops},
      {"aten::_scaled_dot_product_efficient_attention", attention_flops},
      {"aten::_scaled_dot_product_cudnn_attention", attention_flops},
      {"aten::_scaled_dot_product_fused_attention_overrideable", attention_flops},
      {"aten::_scaled_dot_product_flash_attention_backward", attention_backward_flops},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward_flops},
      {"aten::_scaled_dot_product_efficient_attention_backward", attention_backward_flops},
      {"aten::_scaled_dot_product_cudnn_attention_backward", attention_backward_flops},
      {"aten::_scaled_dot_product_fused_attention_overrideable_backward", attention_backward_flops},
  };
  return *all;
}

}  // namespace

std::optional<double> flops_of(std::string_view name, Inputs inputs) {
  const auto formula = formulas().find(name);
  return formula == formulas().end() ? std::nullopt : formula->second(inputs);
}

}  // namespace lockstep::train
