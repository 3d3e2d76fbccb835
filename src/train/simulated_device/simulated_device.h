// A device that is not the CPU, for tests on machines without a GPU: torch's PrivateUse1, with the
// properties of a GPU that a training engine can get wrong.
//
// - Kernels are queued on streams and run later, in a thread of the stream; events order streams.
// - The host cannot read its memory: an access faults. Released memory turns into NaN (memory.h).
// - A host that waits for the device is counted: reads of values, copies, waits for events.
// - There are kDevices devices, each with streams, memory and a random generator of its own.
//
// Kernels are torch's own for the CPU. Method: an operator without a kernel of its own gets here by
// a fallback. Its Meta kernel says the shapes of its results; they are allocated, and a call of its
// CPU kernel on the memory's other mapping is queued. torch's own test device, OpenReg, has the
// same purpose; its kernels are not queued.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/Device.h>

namespace lockstep::train::simulated_device {

// Registers the device with torch, once in a process.
void install();
inline c10::Device device(int index) {
  return {c10::kPrivateUse1, static_cast<c10::DeviceIndex>(index)};
}

// How often the host waited for a device since the last reset.
struct HostWaits {
  std::int64_t reads = 0;         // of values: item(), copies to the host
  std::int64_t writes = 0;        // copies from memory that is not pinned
  std::int64_t synchronizes = 0;  // of streams and events
  std::int64_t timed = 0;         // Work::wait with a time-out
  std::int64_t all() const { return reads + writes + synchronizes + timed; }
};
HostWaits host_waits(c10::DeviceIndex device);
void reset_host_waits(c10::DeviceIndex device);

enum class HostWait { read, write, synchronize, timed };
void count_host_wait(c10::DeviceIndex device, HostWait kind);

// The operators that ran without being queued, because they have no Meta kernel or draw random
// numbers: each once, in the order of its first call.
std::vector<std::string> inline_operators();

}  // namespace lockstep::train::simulated_device
