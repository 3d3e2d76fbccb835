// CommunicatorRecord: the flight record of the operations of one of NCCL's communicators.
//
// NCCL starts the event of an operation when it is enqueued, and stops it at once. Its parts follow
// on the GPU, one for each channel. The operation starts with its first part, and has ended with
// its last one. So a rank whose GPU has not reached an operation shows it as queued.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "comm/flight/recorder.h"
#include "comm/nccl_profiler/interface.h"

namespace lockstep::comm::nccl {

class CommunicatorRecord;

// NCCL's handle of an event.
struct Event {
  CommunicatorRecord* record = nullptr;
  Event* operation = nullptr;  // of a part; null: this is an operation
  FlightTicket ticket{};
  int parts_left = 0;  // of an operation
  bool started = false;
  bool in_use = false;
  int users = 0;  // NCCL, until it stops the event, and the parts that are to end
};

struct CommunicatorIdentity {
  std::uint64_t id = 0;
  std::string name;
  int size = 0;
  int rank = 0;  // in the communicator
};

// From any thread.
class CommunicatorRecord {
 public:
  explicit CommunicatorRecord(const CommunicatorIdentity& identity);

  // Null: it is of no interest, or too many are under way.
  Event* start(const EventDescription& description);
  void stop(Event& event);
  // No event is under way.
  bool is_idle() const;

 private:
  Event* take() LS_REQUIRES(mutex_);
  void release(Event& event) LS_REQUIRES(mutex_);
  Event* start_operation(const FlightCall& call, int parts) LS_REQUIRES(mutex_);
  Event* start_part(Event& operation) LS_REQUIRES(mutex_);
  void end_part(Event& operation) LS_REQUIRES(mutex_);

  mutable Mutex mutex_;  // guards what follows
  FlightRecorder recorder_ LS_GUARDED_BY(mutex_);
  std::uint64_t collectives_ LS_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<Event>> events_ LS_GUARDED_BY(mutex_);
  std::vector<Event*> free_ LS_GUARDED_BY(mutex_);
};

}  // namespace lockstep::comm::nccl
