// SharedMapping: shared memory of this host (a memfd), mapped into this process. However often the
// same memory is asked for, a process maps it once: ranks that are threads see one address, and so
// do sanitizers. Not inherited by forked children, unless it is the process's own.
#pragma once

#include <cstddef>
#include <memory>

#include "base/fd.h"
#include "base/result.h"

namespace lockstep {

// New shared memory of `size` bytes, zeroed, of which nothing is used until it is touched.
Result<Fd> make_shared_memory(const char* name, std::size_t size);

class SharedMapping {
 public:
  enum class InChildren { hidden, inherited };
  // All of it. Shared by all users of this memory in the process.
  static Result<std::shared_ptr<SharedMapping>> of(const Fd& memfd,
                                                   InChildren children = InChildren::hidden);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  SharedMapping(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  std::byte* const data_;
  const std::size_t size_;
};

}  // namespace lockstep
