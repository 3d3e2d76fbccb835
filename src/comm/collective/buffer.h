// Buffer: memory for communication, page-aligned and initially zero. It is allocated in the heap
// that this process shares with the ranks of its host. The heap outlives every group.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "base/result.h"
#include "base/units.h"
#include "comm/fabric/shm/shared_heap.h"

namespace lockstep::comm {

class Buffer {
 public:
  static Result<Buffer> create(Bytes size);

  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : heap_(std::move(other.heap_)), memory_(std::exchange(other.memory_, {})) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(heap_, other.heap_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~Buffer();

  std::byte* data() const { return memory_.data(); }
  Bytes size() const { return Bytes(static_cast<std::int64_t>(memory_.size())); }
  std::span<std::byte> span() const { return memory_; }

 private:
  Buffer(std::shared_ptr<SharedHeap> heap, std::span<std::byte> memory)
      : heap_(std::move(heap)), memory_(memory) {}
  std::shared_ptr<SharedHeap> heap_;  // shared by all buffers of the process
  std::span<std::byte> memory_;
};

}  // namespace lockstep::comm
