#include "comm/collective/buffer.h"

namespace lockstep::comm {

Result<Buffer> Buffer::create(Bytes size) {
  if (size.count() < 0) return Error{Code::invalid, "a buffer's size must not be negative"};
  if (size.count() == 0) return Buffer();
  auto heap = TRY(SharedHeap::for_this_process());
  const auto memory = TRY(heap->allocate(size));
  return Buffer(std::move(heap), memory);
}

Buffer::~Buffer() {
  if (!memory_.empty()) heap_->free(memory_);
}

}  // namespace lockstep::comm
