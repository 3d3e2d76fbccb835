// SharedMapping: shared memory of this host (a memfd), mapped into this process. A process maps the
// same memory only once, for all users. So ranks that are threads see one address, and so do
// sanitizers. Forked children do not inherit it, unless it is the process's own.
#pragma once

#include <cstddef>
#include <memory>

#include "base/os/fd.h"
#include "base/result.h"

namespace lockstep::comm {

// Creates shared memory of `size` bytes, zeroed. Pages are allocated when they are first accessed.
Result<Fd> make_shared_memory(const char* name, std::size_t size);

class SharedMapping {
 public:
  enum class OnFork { not_inherited, inherited };
  // Maps all of it. All users of this memory in the process share the mapping.
  static Result<std::shared_ptr<SharedMapping>> map_shared(const Fd& memfd,
                                                           OnFork children = OnFork::not_inherited);
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

}  // namespace lockstep::comm
