#include "comm/torch/shareable_allocator.h"

#include <cstdlib>
#include <span>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/DeviceType.h>
#include <c10/core/alignment.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Flags.h>
#include <c10/util/numa.h>
#include <unistd.h>

#include "comm/fabric/shm/remap.h"
#include "comm/fabric/shm/shareable_memory.h"

// Torch's headers do not declare them.
C10_DECLARE_bool(caffe2_cpu_allocator_do_zero_fill);
C10_DECLARE_bool(caffe2_cpu_allocator_do_junk_fill);

namespace lockstep::comm {
namespace {

// Torch's own allocator follows these.
bool has_options_of_torch() {
  const bool has_huge_pages =
      c10::c10_compute_alignment(c10::gAlloc_threshold_thp) != c10::gAlignment;
  return has_huge_pages || c10::IsNUMAEnabled() || FLAGS_caffe2_cpu_allocator_do_zero_fill ||
         FLAGS_caffe2_cpu_allocator_do_junk_fill;
}

void* allocate_pages(std::size_t bytes) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, kPageBytes, pages_up(bytes)) != 0) return nullptr;
  ShareableMemory::of_this_process().add({static_cast<std::byte*>(memory), bytes});
  return memory;
}

class ShareableAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const bool moves = bytes >= kShareableBytes && bytes <= kLargest;
    void* const memory = moves ? allocate_pages(bytes) : nullptr;
    // Torch's own raises the error if there is no memory.
    if (memory == nullptr) return c10::GetDefaultCPUAllocator()->allocate(bytes);
    c10::profiledCPUMemoryReporter().New(memory, bytes);
    return {memory, memory, &free_pages, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_any; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  // A negative size, as an unsigned number, is larger.
  static constexpr std::size_t kLargest = std::size_t{1} << 62;

  static void free_pages(void* memory) {
    c10::profiledCPUMemoryReporter().Delete(memory);
    // Shared memory must not go back to malloc: rather lose it.
    if (ShareableMemory::of_this_process().remove(static_cast<std::byte*>(memory)))
      std::free(memory);
  }
  static void free_any(void* memory) {
    if (ShareableMemory::of_this_process().contains(static_cast<std::byte*>(memory)))
      free_pages(memory);
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
  if (is_default && has_usual_pages && !has_options_of_torch()) c10::SetCPUAllocator(allocator);
}

}  // namespace lockstep::comm
