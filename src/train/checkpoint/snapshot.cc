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

void copy_slice(char* file, const PlannedSlice& slice, const std::vector<OwnedTensor>& tensors) {
  copy(file + slice.offset, tensors[slice.tensor].tensor.narrow(0, slice.begin, slice.elements));
}

}  // namespace

void Snapshot::take(const SavePlan& plan, const std::vector<OwnedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  there_ = 0;
  for (const auto& slice : plan.slices)
    if (!tensors[slice.tensor].steady) copy_slice(memory_.get(), slice, tensors);
}

// The division gives a file its slices in the order of their offsets.
void Snapshot::take_steady(const SavePlan& plan, const std::vector<OwnedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  for (const auto& slice : plan.slices) {
    if (!tensors[slice.tensor].steady) continue;
    there_ = static_cast<std::size_t>(slice.offset);
    there_.notify_all();
    copy_slice(memory_.get(), slice, tensors);
  }
  there_ = size_;
  there_.notify_all();
}

void Snapshot::await(std::size_t count) const {
  for (auto there = there_.load(); there < count; there = there_.load()) there_.wait(there);
}

// Zeroed once: nobody writes between the slices.
Result<void> Snapshot::make(const SavePlan& plan) {
  if (memory_) return {};
  const auto size = static_cast<std::size_t>(plan.file_size);
  const auto pages = (size / DataWriter::kPage + 1) * DataWriter::kPage;
  memory_.reset(static_cast<char*>(std::aligned_alloc(DataWriter::kPage, pages)));
  if (!memory_)
    return Error{Code::exhausted, format("there is no memory for a snapshot of {} bytes", size)};
  std::memset(memory_.get(), 0, pages);
  size_ = size;
  return {};
}

}  // namespace lockstep
