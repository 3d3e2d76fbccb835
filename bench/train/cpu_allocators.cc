// Exchanges torch's allocator of CPU memory while a program runs. bench/train/zero_copy.py loads
// this library, to compare memory of different kinds in one process.
#include <cstddef>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace {

constexpr std::size_t kLarge = std::size_t{256} << 10, kAlignment = 4096;

// Large tensors get a given memory, one after the other, and never return it.
class FixedMemory final : public c10::Allocator {
 public:
  void set(std::byte* memory, std::size_t bytes) { next_ = memory, end_ = memory + bytes; }

  c10::DataPtr allocate(std::size_t bytes) override {
    const auto rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (bytes < kLarge || rounded > static_cast<std::size_t>(end_ - next_))
      return c10::GetDefaultCPUAllocator()->allocate(bytes);
    auto* const memory = next_;
    next_ += rounded;
    return {memory, memory, &c10::NoDelete, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
};

}  // namespace

// Allocators as pointers, for set_allocator().
extern "C" void* present_allocator() { return c10::GetCPUAllocator(); }
extern "C" void set_allocator(void* allocator) {
  c10::SetCPUAllocator(static_cast<c10::Allocator*>(allocator));
}
extern "C" void* torchs_allocator() { return c10::GetDefaultCPUAllocator(); }
// For one thread at a time.
extern "C" void* allocator_of(void* memory, std::size_t bytes) {
  static FixedMemory allocator;
  allocator.set(static_cast<std::byte*>(memory), bytes);
  return &allocator;
}
