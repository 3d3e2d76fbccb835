#include "comm/torch/shareable_allocator.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <unistd.h>

#include "comm/fabric/shm/remap.h"
#include "comm/fabric/shm/shareable_memory.h"

namespace lockstep::comm {
namespace {

// The memory that torch has allocated, before a tensor's first page.
struct Allocation {
  void* memory;
};

Allocation& allocation_of(std::byte* pages) { return reinterpret_cast<Allocation*>(pages)[-1]; }

// By torch's function, with its options: filling, NUMA, huge pages. The alignment is ours, because
// malloc reuses freed memory badly for tensors that must begin at a page.
std::byte* allocate_pages(std::size_t bytes) {
  auto* const memory = c10::alloc_cpu(sizeof(Allocation) + kPageBytes + pages_up(bytes));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  auto* const pages =
      static_cast<std::byte*>(memory) + pages_up(begin + sizeof(Allocation)) - begin;
  allocation_of(pages) = {memory};
  ShareableMemory::of_this_process().add({pages, bytes});
  return pages;
}

void free_pages(std::byte* pages) {
  // Shared memory must not go back to malloc: rather lose it.
  if (ShareableMemory::of_this_process().remove(pages)) c10::free_cpu(allocation_of(pages).memory);
}

class ShareableAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes < kShareableBytes || bytes > kLargest)
      return c10::GetDefaultCPUAllocator()->allocate(bytes);
    try {
      auto* const memory = allocate_pages(bytes);
      c10::profiledCPUMemoryReporter().New(memory, bytes);
      return {memory, memory, &report_and_free, c10::Device(c10::DeviceType::CPU)};
    } catch (const c10::Error&) {
      return c10::GetDefaultCPUAllocator()->allocate(bytes);  // which reports the error
    }
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_any; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  // A negative size, as an unsigned number, is larger.
  static constexpr std::size_t kLargest = std::size_t{1} << 62;

  static void report_and_free(void* memory) {
    c10::profiledCPUMemoryReporter().Delete(memory);
    free_pages(static_cast<std::byte*>(memory));
  }
  static void free_any(void* memory) {
    if (ShareableMemory::of_this_process().contains(static_cast<std::byte*>(memory)))
      report_and_free(memory);
    else
      c10::GetDefaultCPUAllocator()->raw_deallocate(memory);
  }
};

}  // namespace

bool wants_zero_copy(const Environment& environment) {
  const auto choice = environment.find("LOCKSTEP_ZERO_COPY");
  if (choice != environment.end()) return choice->second == "1";
  return environment.contains("LOCKSTEP_RUN");
}

void install_shareable_allocator() {
  static auto* const allocator = new ShareableAllocator;  // never destroyed: tensors refer to it
  const bool is_default = c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator();
  const bool has_usual_pages = ::sysconf(_SC_PAGESIZE) == static_cast<long>(kPageBytes);
  if (is_default && has_usual_pages) c10::SetCPUAllocator(allocator);
}

}  // namespace lockstep::comm
