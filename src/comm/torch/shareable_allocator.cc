#include "comm/torch/shareable_allocator.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <c10/util/Flags.h>
#include <unistd.h>

#include "comm/fabric/shm/remap.h"
#include "comm/fabric/shm/shareable_memory.h"
#include "comm/torch/freed_pages.h"

// Torch's headers do not declare them.
C10_DECLARE_bool(caffe2_cpu_allocator_do_zero_fill);
C10_DECLARE_bool(caffe2_cpu_allocator_do_junk_fill);

namespace lockstep::comm {
namespace {

// Before a tensor's first page.
struct Allocation {
  void* memory;  // of torch's function
  std::size_t bytes;
};

Allocation& allocation_of(std::byte* pages) { return reinterpret_cast<Allocation*>(pages)[-1]; }

ShareableMemory& shareable() { return ShareableMemory::of_this_process(); }

// By torch's function, with its options: NUMA, huge pages. The alignment is ours, because malloc
// reuses freed memory badly for allocations that must begin at a page.
std::byte* new_pages(std::size_t bytes) {
  auto* const memory = c10::alloc_cpu(sizeof(Allocation) + kPageBytes + pages_up(bytes));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  auto* const pages =
      static_cast<std::byte*>(memory) + pages_up(begin + sizeof(Allocation)) - begin;
  allocation_of(pages) = {memory, bytes};
  shareable().add({pages, bytes});
  return pages;
}

void delete_pages(const std::vector<std::byte*>& all) {
  for (auto* const pages : all)
    // Shared memory must not go back to malloc: rather lose it.
    if (shareable().remove(pages)) c10::free_cpu(allocation_of(pages).memory);
}

std::byte* allocate_pages(std::size_t bytes) {
  const auto taken = FreedPages::of_this_process().take(bytes, std::chrono::steady_clock::now());
  delete_pages(taken.dropped);
  if (taken.pages != nullptr) return taken.pages;
  try {
    return new_pages(bytes);
  } catch (const c10::Error&) {
    FreedPages::of_this_process().forget(bytes);
    return nullptr;
  }
}

void free_pages(std::byte* pages) {
  const auto bytes = allocation_of(pages).bytes;
  if (shareable().in_use(pages)) {
    FreedPages::of_this_process().forget(bytes);
    delete_pages({pages});
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  delete_pages(FreedPages::of_this_process().keep(pages, bytes, now));
}

class ShareableAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    // Torch's own fills memory, and raises the error if there is none.
    const bool is_filled =
        FLAGS_caffe2_cpu_allocator_do_zero_fill || FLAGS_caffe2_cpu_allocator_do_junk_fill;
    const bool moves = bytes >= kShareableBytes && bytes <= kLargest && !is_filled;
    auto* const memory = moves ? allocate_pages(bytes) : nullptr;
    if (memory == nullptr) return c10::GetDefaultCPUAllocator()->allocate(bytes);
    c10::profiledCPUMemoryReporter().New(memory, bytes);
    return {memory, memory, &report_and_free, c10::Device(c10::DeviceType::CPU)};
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
    if (shareable().contains(static_cast<std::byte*>(memory)))
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
