// Moves small tensors into one buffer and back, so that they travel in one collective.
#include "fusion.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

namespace lockstep::python {
namespace {

enum class Direction { into_buffer, out_of_buffer };

// True if the values differ from the elements in memory.
bool is_lazy(const at::Tensor& tensor) { return tensor.is_conj() || tensor.is_neg(); }

// True if its values lie one after another in host memory.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous() &&
         !is_lazy(tensor) && !tensor.unsafeGetTensorImpl()->is_python_dispatch();
}

void move_plain(std::byte* part, const at::Tensor& tensor, Direction direction) {
  if (direction == Direction::into_buffer) {
    std::memcpy(part, tensor.const_data_ptr(), tensor.nbytes());
  } else {
    std::memcpy(tensor.mutable_data_ptr(), part, tensor.nbytes());
    tensor.unsafeGetTensorImpl()->bump_version();
  }
}

// buffer is contiguous, of the tensors' type, with as many elements as all of them.
void move_tensors(const at::Tensor& buffer, const std::vector<at::Tensor>& tensors,
                  Direction direction) {
  const at::NoGradGuard no_gradient;
  std::vector<at::Tensor> from;
  std::vector<at::Tensor> to;
  std::int64_t begin = 0;
  for (const auto& tensor : tensors) {
    const auto count = tensor.numel();
    TORCH_CHECK(tensor.scalar_type() == buffer.scalar_type() && begin + count <= buffer.numel(),
                "a tensor does not fit into the buffer");
    if (is_plain(tensor)) {
      auto* const bytes = static_cast<std::byte*>(buffer.data_ptr());
      move_plain(bytes + begin * buffer.element_size(), tensor, direction);
    } else {
      const auto part = buffer.narrow(0, begin, count).view(tensor.sizes());
      from.push_back(direction == Direction::into_buffer ? tensor : part);
      to.push_back(direction == Direction::into_buffer ? part : tensor);
    }
    begin += count;
  }
  // Together, which takes few kernels on a GPU. It refuses lazy tensors.
  if (std::ranges::none_of(to, is_lazy) && !to.empty()) {
    at::_foreach_copy_(to, from);
  } else {
    for (std::size_t number = 0; number < to.size(); ++number) to[number].copy_(from[number]);
  }
}

}  // namespace

void bind_fusion(pybind11::module& module) {
  using GiveUpLock = pybind11::call_guard<pybind11::gil_scoped_release>;
  module.def(
      "pack_tensors",
      [](const at::Tensor& buffer, const std::vector<at::Tensor>& tensors) {
        move_tensors(buffer, tensors, Direction::into_buffer);
      },
      GiveUpLock());
  module.def(
      "unpack_tensors",
      [](const at::Tensor& buffer, const std::vector<at::Tensor>& tensors) {
        move_tensors(buffer, tensors, Direction::out_of_buffer);
      },
      GiveUpLock());
}

}  // namespace lockstep::python
