#include "train/checkpoint/snapshot.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
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

constexpr std::size_t kCopyBetweenEvents = 64 << 20;
constexpr auto kPollPause = std::chrono::microseconds(100);

at::Tensor source(const PlannedSlice& slice, const std::vector<OwnedTensor>& tensors) {
  return tensors[slice.tensor].tensor.narrow(0, slice.begin, slice.elements);
}

// Past the cache: it is not read before it is written to disk, and the training's own data stays.
void copy_slice(char* file, const PlannedSlice& slice, const std::vector<OwnedTensor>& tensors) {
  const auto from = source(slice, tensors);
  const std::array destinations{reinterpret_cast<std::byte*>(file + slice.offset)};
  comm::copy_to_all(destinations, static_cast<const std::byte*>(from.const_data_ptr()),
                    from.nbytes(), comm::StoreMode::non_temporal);
}

bool is_on_device(const PlannedSlice& slice, const std::vector<OwnedTensor>& tensors) {
  return !tensors[slice.tensor].tensor.is_cpu();
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

void Snapshot::begin(const SavePlan& plan, const std::vector<OwnedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  copied_bytes_ = 0;
  queued_.clear();
  for (const auto& slice : plan.slices)
    if (!tensors[slice.tensor].stable_between_steps && !is_on_device(slice, tensors))
      copy_slice(memory_, slice, tensors);
  if (!stream_) return;
  const c10::impl::VirtualGuardImpl device(stream_->device_type());
  const auto training = device.getStream(stream_->device());
  c10::Event computed(stream_->device_type());
  computed.record(training);
  computed.block(*stream_);
  queue(plan, tensors, /*stable=*/false);
  if (!queued_.empty()) queued_.back().done->block(training);
  queue(plan, tensors, /*stable=*/true);
}

// An event for each part of some size: the disk can begin before all is copied.
void Snapshot::queue(const SavePlan& plan, const std::vector<OwnedTensor>& tensors, bool stable) {
  const c10::StreamGuard guard(*stream_);
  std::size_t since_event = kCopyBetweenEvents;
  const auto first = queued_.size();
  for (std::size_t i = 0; i < plan.slices.size(); ++i) {
    const auto& slice = plan.slices[i];
    if (!is_on_device(slice, tensors) || tensors[slice.tensor].stable_between_steps != stable)
      continue;
    if (since_event >= kCopyBetweenEvents) {
      if (queued_.size() > first) queued_.back().done->record(*stream_);
      queued_.push_back({i, std::make_shared<c10::Event>(stream_->device_type())});
      since_event = 0;
    } else {
      queued_.push_back({i, queued_.back().done});
    }
    const auto from = source(slice, tensors);
    at::from_blob(memory_ + slice.offset, from.sizes(), from.options().device(at::kCPU))
        .copy_(from, /*non_blocking=*/true);
    since_event += from.nbytes();
  }
  if (queued_.size() > first) queued_.back().done->record(*stream_);
}

std::shared_ptr<const c10::Event> Snapshot::device_copies() const {
  return queued_.empty() ? nullptr : queued_.back().done;
}

// The assignment gives a file its slices in the order of their offsets.
void Snapshot::finish(const SavePlan& plan, const std::vector<OwnedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::vector<std::shared_ptr<c10::Event>> done(plan.slices.size());
  for (const auto& [slice, event] : queued_) done[slice] = event;
  for (std::size_t i = 0; i < plan.slices.size(); ++i) {
    const auto& slice = plan.slices[i];
    if (done[i]) {
      notify_copied(static_cast<std::size_t>(slice.offset));
      while (!done[i]->query()) std::this_thread::sleep_for(kPollPause);
    } else if (tensors[slice.tensor].stable_between_steps) {
      for (const auto& part : parts(slice, tensors[slice.tensor].tensor.element_size())) {
        notify_copied(static_cast<std::size_t>(part.offset));
        copy_slice(memory_, part, tensors);
      }
    }
  }
  notify_copied(size_);
}

void Snapshot::notify_copied(std::size_t bytes) {
  copied_bytes_ = bytes;
  copied_bytes_.notify_all();
}

std::size_t Snapshot::wait_for_bytes(std::size_t count) const {
  auto there = copied_bytes_.load();
  for (; there < count; there = copied_bytes_.load()) copied_bytes_.wait(there);
  return there;
}

// Zeroed once: the padding between the slices is never written.
Result<void> Snapshot::allocate(const SavePlan& plan, at::Device device) {
  if (memory_) return {};
  const auto size = static_cast<std::size_t>(plan.file_size);
  const auto page = size < kHugePage ? DataWriter::kPage : kHugePage;
  const auto pages = (size / page + 1) * page;
  if (device.is_cpu()) {
    pageable_.reset(static_cast<char*>(std::aligned_alloc(page, pages)));
    memory_ = pageable_.get();
  } else {
    stream_ = c10::impl::VirtualGuardImpl(device.type()).getNewStream(device);
    memory_ = allocate_pinned(pages);
  }
  if (!memory_)
    return Error{Code::exhausted, format("there is no memory for a snapshot of {} bytes", size)};
  if (pageable_ && page == kHugePage) ::madvise(memory_, pages, MADV_HUGEPAGE);  // if allowed
  std::memset(memory_, 0, size);
  size_ = size;
  return {};
}

// A page more than asked for, because torch's allocator does not promise to begin at one.
char* Snapshot::allocate_pinned(std::size_t bytes) {
  try {
    pinned_ = at::empty({static_cast<std::int64_t>(bytes + DataWriter::kPage)},
                        at::TensorOptions(at::kByte).pinned_memory(true));
  } catch (const std::exception&) {
    return nullptr;
  }
  void* memory = pinned_.mutable_data_ptr();
  std::size_t space = bytes + DataWriter::kPage;
  return static_cast<char*>(std::align(DataWriter::kPage, bytes, memory, space));
}

}  // namespace lockstep::train
