#include "train/engine/buffer_pool.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "base/check.h"

namespace lockstep::train {
namespace {

constexpr int kNaN = 0xff;  // in every byte: not a number in all floating-point types

}  // namespace

at::Tensor BufferPool::acquire() {
  Buffer buffer;
  if (free_.empty()) {
    buffer.memory = allocate();
  } else {
    buffer = std::move(free_.back());
    free_.pop_back();
  }
  if (!device_.is_cpu()) {
    buffer.stream = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
    for (auto& use : buffer.uses) use.block(*buffer.stream);
    buffer.uses.clear();
  }
  in_use_.push_back(std::move(buffer));
  in_use_max_ = std::max(in_use_max_, static_cast<int>(in_use_.size()));
  return in_use_.back().memory;
}

at::Tensor BufferPool::allocate() {
  auto lent = world_.allocate(size_.count(), at::kByte, device_);
  if (lent) return *std::move(lent);
  // Memory outside the backend's also works: transfers copy it.
  return at::empty({size_.count()}, at::TensorOptions().dtype(at::kByte).device(device_));
}

void BufferPool::release(const at::Tensor& memory) {
  const auto found = std::ranges::find_if(
      in_use_, [&](const Buffer& buffer) { return buffer.memory.is_same(memory); });
  LS_CHECK(found != in_use_.end());
  auto buffer = std::move(*found);
  in_use_.erase(found);
  if (buffer.stream) remember_uses(buffer);
  if (poison_) poison(buffer);
  free_.push_back(std::move(buffer));
}

void BufferPool::remember_uses(Buffer& buffer) const {
  const auto here = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  for (const auto& stream : {*buffer.stream, here}) {
    if (!buffer.uses.empty() && stream == *buffer.stream) continue;
    buffer.uses.emplace_back(device_.type()).record(stream);
  }
}

// On a stream of its own: the caller's must not wait for it.
void BufferPool::poison(Buffer& buffer) {
  if (!buffer.stream) {
    buffer.memory.fill_(kNaN);
    return;
  }
  if (!poison_stream_)
    poison_stream_ = c10::impl::VirtualGuardImpl(device_.type()).getNewStream(device_);
  const c10::StreamGuard guard(*poison_stream_);
  for (auto& use : buffer.uses) use.block(*poison_stream_);
  buffer.memory.fill_(kNaN);
  buffer.uses.emplace_back(device_.type()).record(*poison_stream_);
}

}  // namespace lockstep::train
