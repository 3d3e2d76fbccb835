// The functions of the tables. A profiler must not disturb NCCL: what it cannot record it leaves
// out.
#include <algorithm>
#include <exception>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "comm/nccl_profiler/communicator_record.h"
#include "comm/nccl_profiler/interface.h"

namespace lockstep::comm::nccl {
namespace {

// The records of all communicators. NCCL may stop the parts of operations after it has finalized a
// communicator, so a record with such parts stays.
class Records {
 public:
  CommunicatorRecord* add(const CommunicatorIdentity& identity) {
    const Lock lock(mutex_);
    records_.push_back(std::make_unique<CommunicatorRecord>(identity));
    return records_.back().get();
  }
  void finish(const CommunicatorRecord* record) {
    const Lock lock(mutex_);
    std::erase_if(records_,
                  [&](const auto& one) { return one.get() == record && record->is_idle(); });
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<CommunicatorRecord>> records_ LS_GUARDED_BY(mutex_);
};

// It is never destroyed, because NCCL's threads may outlive the destructors of the process.
Records& all_records() {
  static auto* const records = new Records;
  return *records;
}

Status start_profile(void** context, std::uint64_t communicator, int* events, const char* name, int,
                     int size, int rank, Logger) noexcept {
  *context = nullptr;
  *events = 0;
  if (size < 1 || rank < 0 || rank >= size) return Status::success;
  try {
    const CommunicatorIdentity identity{communicator, name == nullptr ? "" : name, size, rank};
    *context = all_records().add(identity);
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

Status end_profile(void* context) noexcept {
  try {
    all_records().finish(static_cast<CommunicatorRecord*>(context));
  } catch (const std::exception&) {
  }
  return Status::success;
}

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
