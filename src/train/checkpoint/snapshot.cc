#include "train/checkpoint/snapshot.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

namespace lockstep {

void Snapshot::take(const SavePlan& plan, const std::vector<OwnedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  // Zeroed once: nobody writes between the slices.
  if (!bytes_.defined()) bytes_ = at::zeros({plan.file_size}, at::kByte);
  auto* const memory = static_cast<char*>(bytes_.mutable_data_ptr());
  for (const auto& slice : plan.slices) {
    const auto& source = tensors[slice.tensor].tensor;
    const auto copy =
        at::from_blob(memory + slice.offset, {slice.elements}, source.options().device(at::kCPU));
    copy.copy_(source.narrow(0, slice.begin, slice.elements));
  }
}

std::string_view Snapshot::bytes() const {
  return {static_cast<const char*>(bytes_.const_data_ptr()), bytes_.nbytes()};
}

}  // namespace lockstep
