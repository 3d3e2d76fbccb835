// BufferParts: a buffer that is sent or reduced in parts, one after the other. The work before and
// after the exchange of a part overlaps with messages of other parts. In a hierarchical collective
// (hierarchical_*.h) a part is first reduced within the host, then exchanged with other hosts, then
// distributed within the host. If there is no work before and after, there is one part.
//
// An algorithm calls before_exchange(p) before it first reads part p, and after_exchange(p) when
// all of it is final. It calls each in ascending order and once for each part. Within a host all
// ranks make these calls together, so their order must not depend on timing. The ring, recursive
// doubling and halving and doubling keep one part ahead: before_exchange(0), before_exchange(1),
// after_exchange(0), before_exchange(2), after_exchange(1), ..., after_exchange(last). Ranks that
// exchange nothing with other hosts follow the same order (hierarchical_all_reduce.cc).
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "comm/algorithm/exchange/slice.h"

namespace lockstep::comm {

class BufferParts {
 public:
  // element: bytes.
  explicit BufferParts(std::span<std::byte> buffer, std::size_t element = 1)
      : BufferParts(buffer, element, 1, buffer.size()) {}
  virtual ~BufferParts() = default;
  BufferParts(const BufferParts&) = delete;
  BufferParts& operator=(const BufferParts&) = delete;

  std::size_t count() const { return count_; }
  std::size_t element() const { return element_; }
  // The elements of a part. The longest part is that of any buffer that the ranks of a host
  // exchange at the same time, so values derived from it are equal on all of them.
  ElementRange range(std::size_t part) const { return cut(elements_, count_, part); }
  std::size_t longest() const { return longest_; }
  std::byte* at(std::size_t index) const { return data_ + index * element_; }

  virtual Result<void> before_exchange(std::size_t /*part*/) { return {}; }
  virtual Result<void> after_exchange(std::size_t /*part*/) { return {}; }

  // For algorithms that finish each part before they begin the next: call before_exchange(0), then
  // run_neighbour_hooks(p) while the first messages of part p travel, then after_exchange(last).
  // run_neighbour_hooks(p) may be called several times.
  Result<void> run_neighbour_hooks(std::size_t part) {
    if (overlapped_ > part) return {};
    overlapped_ = part + 1;
    if (part > 0) TRY(after_exchange(part - 1));
    return part + 1 < count_ ? before_exchange(part + 1) : Result<void>();
  }

 protected:
  // longest_buffer: bytes, of the buffers exchanged at the same time. parts > 0.
  BufferParts(std::span<std::byte> buffer, std::size_t element, std::size_t parts,
              std::size_t longest_buffer)
      : data_(buffer.data()),
        element_(element),
        elements_(buffer.size() / element),
        count_(parts),
        longest_((longest_buffer / element + parts - 1) / parts) {}

 private:
  std::byte* const data_;
  const std::size_t element_, elements_, count_, longest_;
  std::size_t overlapped_ = 0;
};

}  // namespace lockstep::comm
