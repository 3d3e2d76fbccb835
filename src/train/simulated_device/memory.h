// Memory of the simulated devices. A pointer into it cannot be read by the host: the same memory is
// mapped twice, and the addresses that tensors hold have no access. Kernels use the other mapping.
//
// It is reused as torch's CUDA allocator reuses it: a released block serves the next allocation of
// the same stream at once, because a stream runs its kernels in order. A released block is filled
// with ones, in the order of its stream, which is NaN in every floating-point type. So a kernel of
// another stream that still uses the block reads or leaves NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

namespace lockstep::train::simulated_device {

// Each byte of memory without a value.
inline constexpr int kPoison = 0xff;

// The address that kernels and tests may use. Null for null.
void* host_address(const void* device_pointer);
bool is_device_pointer(const void* pointer);
// The device of a block.
c10::DeviceIndex index_of(const void* device_pointer);
// After its release the block is not reused before this stream has done what it has queued by then.
void record_stream(const void* device_pointer, c10::Stream stream);
// Bytes in blocks that are in use, and the most that were since the last reset.
std::int64_t bytes_in_use(c10::DeviceIndex device);
std::int64_t bytes_in_use_max(c10::DeviceIndex device);
void reset_bytes_in_use_max(c10::DeviceIndex device);
// The sizes that getMemoryInfo() reports.
void set_memory_info(std::size_t free, std::size_t all);

c10::Allocator& device_allocator();
// Main memory of which is_pinned() is true.
c10::Allocator& pinned_allocator();
bool is_pinned(const void* pointer);

}  // namespace lockstep::train::simulated_device
