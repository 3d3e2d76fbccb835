// The functions of the tables. A profiler must not disturb NCCL: what it cannot record it leaves
// out.
#include <exception>

#include "comm/nccl_profiler/communicator_record.h"
#include "comm/nccl_profiler/interface.h"

namespace lockstep::comm::nccl {
namespace {

Status start_profile(void** context, std::uint64_t communicator, int* events, const char* name, int,
                     int size, int rank, Logger) noexcept {
  *context = nullptr;
  *events = 0;
  if (size < 1 || rank < 0 || rank >= size) return Status::success;
  try {
    const CommunicatorIdentity identity{communicator, name == nullptr ? "" : name, size, rank};
    *context = new CommunicatorRecord(identity);
    *events = static_cast<int>(kCollectiveEvent | kPeerEvent | kKernelChannelEvent);
  } catch (const std::exception&) {  // no memory
  }
  return Status::success;
}

Status start_event(void* context, void** event, EventDescription* description) noexcept {
  *event = nullptr;
  try {
    if (context != nullptr) *event = static_cast<CommunicatorRecord*>(context)->start(*description);
  } catch (const std::exception&) {
  }
  return Status::success;
}

Status stop_event(void* event) noexcept {
  try {
    if (event != nullptr) {
      auto& stopped = *static_cast<Event*>(event);
      stopped.record->stop(stopped);
    }
  } catch (const std::exception&) {
  }
  return Status::success;
}

Status record_state(void*, int, void*) noexcept { return Status::success; }

// The record stays: NCCL may stop the parts of operations after this call.
Status end_profile(void*) noexcept { return Status::success; }

constexpr ProfilerTable kProfiler = {.name = "Lockstep",
                                     .init = start_profile,
                                     .start = start_event,
                                     .stop = stop_event,
                                     .record_state = record_state,
                                     .finalize = end_profile};

}  // namespace
}  // namespace lockstep::comm::nccl

// The symbols that NCCL looks for, the highest version first.
extern "C" {
using namespace lockstep::comm::nccl;  // NOLINT(google-build-using-namespace)
extern const ProfilerTable ncclProfiler_v5;
extern const ProfilerTable ncclProfiler_v6;

const ProfilerTable ncclProfiler_v5 = kProfiler;
const ProfilerTable ncclProfiler_v6 = kProfiler;
}
