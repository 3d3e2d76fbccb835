#include "comm/collective/buffer.h"

#include <cerrno>

#include <sys/mman.h>

#include "base/format.h"

namespace lockstep {

Result<Buffer> Buffer::create(Bytes size) {
  if (size.count() < 0) return Error{Code::invalid, "a buffer's size must not be negative"};
  if (size.count() == 0) return Buffer();
  const auto bytes = static_cast<std::size_t>(size.count());
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return os_error(format("allocating {} to communicate", text(size)), errno);
  return Buffer({static_cast<std::byte*>(memory), bytes});
}

Buffer::~Buffer() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

}  // namespace lockstep
