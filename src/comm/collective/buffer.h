// Buffer: memory that is communicated. Made by Communicator::allocate, page-aligned and zeroed;
// what stands behind it (plain or shared memory) is the communicator's business.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/result.h"
#include "base/units.h"

namespace lockstep {

class Buffer {
 public:
  static Result<Buffer> create(Bytes size);

  Buffer() = default;
  Buffer(Buffer&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~Buffer();

  std::byte* data() const { return memory_.data(); }
  Bytes size() const { return Bytes(static_cast<std::int64_t>(memory_.size())); }
  std::span<std::byte> span() const { return memory_; }

 private:
  explicit Buffer(std::span<std::byte> memory) : memory_(memory) {}
  std::span<std::byte> memory_;  // owned, by mmap
};

}  // namespace lockstep
