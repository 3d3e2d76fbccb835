// Buffer: memory that is communicated, page-aligned and zeroed when it is made. It lies in the heap
// that this process shares with the ranks of its host, which outlives every group.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "base/result.h"
#include "base/units.h"
#include "comm/fabric/shm/heap.h"

namespace lockstep {

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
  Buffer(std::shared_ptr<Heap> heap, std::span<std::byte> memory)
      : heap_(std::move(heap)), memory_(memory) {}
  std::shared_ptr<Heap> heap_;  // shared by all buffers of the process
  std::span<std::byte> memory_;
};

}  // namespace lockstep
