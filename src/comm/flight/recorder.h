// FlightRecorder: the last 4,096 operations of one rank in one group. It is always on, so that
// after a hang or a kill -9 the position of each rank is known. It takes about 30 ns an operation.
// After construction it allocates nothing, takes no lock and never waits.
//
// Where LOCKSTEP_FLIGHT_DIR names a folder, the record is a file there, rank-R.GROUP.flight (0600,
// R is the global rank). The file outlives the process in any case; read it with `lockstep flight`.
// Otherwise it is in memory only (snapshot()).
//
// Threads. record_queued() and record_started() exclude each other. The engine calls them where it
// numbers a call, under its lock, so the record has the order of submission. mark_started(),
// mark_waiting(), mark_resumed() and mark_ended() also exclude each other: the driver calls them.
// Readers may read at any time (format.h).
//
// A send or recv is in flight from its submission to its end, with its peer as the awaited one.
//
// A running operation is never overwritten, because the others may wait for it. An operation
// without a free slot is only counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/flight/format.h"
#include "comm/flight/memory.h"
#include "comm/flight/peer_waits.h"
#include "comm/flight/ticks.h"
#include "comm/group/group_ranks.h"
#include "comm/group/wait_reason.h"

namespace lockstep::comm {

// Names by code, at most 32 of 16 bytes each.
struct FlightNames {
  std::span<const std::string_view> operations;
  std::span<const std::string_view> types;
  std::span<const std::string_view> reductions;
  std::uint8_t receive = 0;  // the operation that receives from a peer
};

struct FlightIdentity {
  int rank = 0;  // in the group
  GroupRanks members;
  std::string group;  // unique among all groups of the run
  std::string host;
};

// For a recv: any sender.
inline constexpr int kAnyPeer = -2;

// The call to record. The label is this thread's (label.h).
struct FlightCall {
  std::uint64_t sequence = 0;  // of the collective in its group; equal on all ranks
  std::uint64_t bytes = 0;
  int root = -1;  // or the tag of a send or recv
  int peer = -1;  // of a send or recv; -1: a collective
  std::uint8_t operation = 0;
  std::uint8_t type = flight_format::kNoCode;
  std::uint8_t reduction = flight_format::kNoCode;
};

enum class FlightState : std::uint8_t { queued, started, done, failed };

// Identifies an operation's slot until it has ended. An operation that is not recorded has an empty
// ticket, which every function accepts.
class FlightTicket {
 public:
  FlightTicket() = default;

 private:
  friend class FlightRecorder;
  using Slot = flight_format::Slot<flight_format::SharedWord>;
  explicit FlightTicket(Slot* slot) : slot_(slot) {}
  Slot* slot_ = nullptr;
};

class FlightRecorder {
 public:
  static constexpr std::size_t kRecords = flight_format::kSlots;

  // Never fails: if a folder cannot be used, the log reports it, and the record is in memory.
  FlightRecorder(const FlightIdentity& identity, const FlightNames& names);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Records a queued call, which another thread will execute.
  FlightTicket record_queued(const FlightCall& call) noexcept;
  // Records a call that starts at once.
  FlightTicket record_started(const FlightCall& call) noexcept;

  void mark_started(FlightTicket ticket) noexcept;
  // A wait has become slow. received_bytes: bytes that had been received by then.
  void mark_waiting(FlightTicket ticket, int peer, WaitReason what,
                    std::uint64_t received_bytes) noexcept;
  // The wait has ended. The waits for each peer are added up, to find slow links afterwards.
  // held_up: the peer to which data is still being sent; the wait also counts as a wait for that
  // peer to receive. -1: none.
  void mark_resumed(FlightTicket ticket, int held_up = -1) noexcept;
  // The ticket is invalid afterwards.
  void mark_ended(FlightTicket ticket, bool well, std::uint64_t received_bytes) noexcept;

  // A copy with the content of the file, without slots that were never used; for any thread.
  std::vector<std::byte> snapshot() const;

 private:
  using Slot = FlightTicket::Slot;

  FlightTicket write_slot(const FlightCall& call, FlightState state) noexcept;
  Slot* free_slot() noexcept;
  void sample_clocks() noexcept;
  void write_longest_waits(Slot& slot) noexcept;

  const TickClock& clock_;
  const FlightMemory memory_;
  flight_format::Header<flight_format::SharedWord>& header_;
  Slot* const slots_;

  // Used by the threads that record calls.
  std::uint64_t next_ = 0;
  std::uint64_t number_ = 0;
  // Used by the driver.
  std::uint64_t ends_ = 0;
  WaitReason waiting_for_{};      // in the slow wait
  PeerWaits waits_;               // of one operation
  const Slot* waiter_ = nullptr;  // the operation of waits_
};

}  // namespace lockstep::comm
