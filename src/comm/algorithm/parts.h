// Parts: a buffer that is sent or reduced in parts, one after the other, so that what must be done
// before and after it goes on while messages travel. In a hierarchical collective
// (hierarchical_*.h) a part is filled by reducing within the host, then exchanged with other hosts,
// then spread within the host; when there is nothing to do before and after, there is one part.
//
// An algorithm calls fill(p) before it reads part p first, and spread(p) when all of it is final;
// each in ascending order, each once. Within a host these are acts of all its ranks together, so
// their order must not depend on timing. The ring, recursive doubling and halving and doubling keep
// one part ahead: fill(0), fill(1), spread(0), fill(2), spread(1), ..., spread(last); that is what
// ranks that only fill and spread follow (hierarchical_all_reduce.cc).
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "comm/algorithm/slice.h"

namespace lockstep {

class Parts {
 public:
  // element: bytes.
  explicit Parts(std::span<std::byte> buffer, std::size_t element = 1)
      : Parts(buffer, element, 1, buffer.size()) {}
  virtual ~Parts() = default;
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  std::size_t count() const { return count_; }
  std::size_t element() const { return element_; }
  // The elements of a part; of the longest one in any of the buffers that a host's ranks exchange
  // at the same time. What is derived from that is equal on all of them.
  ElementRange range(std::size_t part) const { return cut(elements_, count_, part); }
  std::size_t longest() const { return longest_; }
  std::byte* at(std::size_t index) const { return data_ + index * element_; }

  virtual Result<void> fill(std::size_t /*part*/) { return {}; }
  virtual Result<void> spread(std::size_t /*part*/) { return {}; }

  // For algorithms that finish each part before they begin the next: fill(0), then overlap(p) while
  // the first messages of part p travel (again and again if it likes), at last spread(last).
  Result<void> overlap(std::size_t part) {
    if (overlapped_ > part) return {};
    overlapped_ = part + 1;
    if (part > 0) TRY(spread(part - 1));
    return part + 1 < count_ ? fill(part + 1) : Result<void>();
  }

 protected:
  // longest_buffer: bytes, of the buffers exchanged at the same time. parts > 0.
  Parts(std::span<std::byte> buffer, std::size_t element, std::size_t parts,
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

}  // namespace lockstep
