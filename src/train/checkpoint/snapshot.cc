#include "train/checkpoint/snapshot.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>

#include "base/format.h"
#include "comm/reduction/reduction.h"
#include "train/checkpoint/format/tensor_file/data_file.h"

namespace lockstep::train {
namespace {

// For a write past the cache the kernel pins pages, and one request to the disk holds a limited
// number of segments: one such page instead of 512.
constexpr std::size_t kHugePage = 2 << 20;
constexpr std::int64_t kPart = 4 << 20;

// Past the cache: it is not read before it is written to disk, and the training's own data stays.
void copy(char* to, const at::Tensor& from) {
  const std::array destinations{reinterpret_cast<std::byte*>(to)};
  if (from.is_cpu())
    comm::copy_to_all(destinations, static_cast<const std::byte*>(from.const_data_ptr()),
                      from.nbytes(), comm::StoreMode::non_temporal);
  else
    at::from_blob(to, from.sizes(), from.options().device(at::kCPU)).copy_(from);
}

void copy_slice(char* file, const PlannedSlice& slice, const std::vector<OwnedTensor>& tensors) {
  copy(file + slice.offset, tensors[slice.tensor].tensor.narrow(0, slice.begin, slice.elements));
}

// Long enough that notifying waiters costs little, and short enough that the disk need not wait
// long.
std::vector<PlannedSlice> parts(const PlannedSlice& slice, std::int64_t item) {
  std::vector<PlannedSlice> parts;
  for (std::int64_t done = 0; done < slice.elements; done += kPart / item) {
    parts.push_back(slice);
    parts.back().begin += done;
    parts.back().elements = std::min(kPart / item, slice.elements - done);
    parts.back().offset += done * item;
  }
  return parts;
}

}  // namespace

void Snapshot::copy_volatile(const SavePlan& plan, const std::vector<OwnedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  copied_bytes_ = 0;
  for (const auto& slice : plan.slices)
    if (!tensors[slice.tensor].stable_between_steps) copy_slice(memory_.get(), slice, tensors);
}

// The assignment gives a file its slices in the order of their offsets.
void Snapshot::copy_stable(const SavePlan& plan, const std::vector<OwnedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  for (const auto& slice : plan.slices) {
    if (!tensors[slice.tensor].stable_between_steps) continue;
    for (const auto& part : parts(slice, tensors[slice.tensor].tensor.element_size())) {
      copied_bytes_ = static_cast<std::size_t>(part.offset);
      copied_bytes_.notify_all();
      copy_slice(memory_.get(), part, tensors);
    }
  }
  copied_bytes_ = size_;
  copied_bytes_.notify_all();
}

std::size_t Snapshot::wait_for_bytes(std::size_t count) const {
  auto there = copied_bytes_.load();
  for (; there < count; there = copied_bytes_.load()) copied_bytes_.wait(there);
  return there;
}

// Zeroed once: the padding between the slices is never written.
Result<void> Snapshot::allocate(const SavePlan& plan) {
  if (memory_) return {};
  const auto size = static_cast<std::size_t>(plan.file_size);
  const auto page = size < kHugePage ? DataWriter::kPage : kHugePage;
  const auto pages = (size / page + 1) * page;
  memory_.reset(static_cast<char*>(std::aligned_alloc(page, pages)));
  if (!memory_)
    return Error{Code::exhausted, format("there is no memory for a snapshot of {} bytes", size)};
  if (page == kHugePage) ::madvise(memory_.get(), pages, MADV_HUGEPAGE);  // where it is allowed
  std::memset(memory_.get(), 0, size);
  size_ = size;
  return {};
}

}  // namespace lockstep::train
