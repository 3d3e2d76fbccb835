#include "train/checkpoint/snapshot.h"

#include <array>
#include <cstring>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include "base/format.h"
#include "comm/reduction/reduction.h"
#include "train/checkpoint/format/data_file.h"

namespace lockstep {
namespace {

// Past the cache: nobody reads it before it is written to disk, and the training's own data stays.
void copy(char* to, const at::Tensor& from) {
  const std::array destinations{reinterpret_cast<std::byte*>(to)};
  if (from.is_cpu())
    copy_to_all(destinations, static_cast<const std::byte*>(from.const_data_ptr()), from.nbytes(),
                Stores::past_cache);
  else
    at::from_blob(to, from.sizes(), from.options().device(at::kCPU)).copy_(from);
}

}  // namespace

Result<void> Snapshot::take(const SavePlan& plan, const std::vector<OwnedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  if (!memory_) TRY(make(static_cast<std::size_t>(plan.file_size)));
  for (const auto& slice : plan.slices)
    copy(memory_.get() + slice.offset,
         tensors[slice.tensor].tensor.narrow(0, slice.begin, slice.elements));
  return {};
}

// Zeroed once: nobody writes between the slices.
Result<void> Snapshot::make(std::size_t size) {
  const auto pages = (size / DataWriter::kPage + 1) * DataWriter::kPage;
  memory_.reset(static_cast<char*>(std::aligned_alloc(DataWriter::kPage, pages)));
  if (!memory_)
    return Error{Code::exhausted, format("there is no memory for a snapshot of {} bytes", size)};
  std::memset(memory_.get(), 0, pages);
  size_ = size;
  return {};
}

}  // namespace lockstep
