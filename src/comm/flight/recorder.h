// FlightRecorder: the last 4,096 operations of one rank in one group, always on, so that after a
// hang or a kill -9 it can be seen which rank was where. About 30 ns an operation; nothing is
// allocated, locked or waited for once it is there.
//
// Where LOCKSTEP_FLIGHT_DIR names a folder, the record lies in a file there, rank-R.GROUP.flight
// (0600, R is the number in the run), which outlives the process however it ends; read it with
// `lockstep flight`. Otherwise it is in memory only (snapshot()).
//
// Threads. begin() and start() exclude each other; the engine calls them where it gives a call its
// number, under its lock, so the record has the order of submission. started(), waiting(),
// resumed() and ended() exclude each other, too: the driver calls them. Readers may come at any
// time (format.h).
//
// A send or recv is under way from its submission to its end, with its peer for the wait.
//
// An operation under way is never overwritten: what the others wait for is what matters. One for
// which there is no room is only counted.
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
#include "comm/group/members.h"
#include "comm/group/wait_for.h"

namespace lockstep {

// Names by code, at most 32 of 16 bytes each.
struct FlightNames {
  std::span<const std::string_view> operations;
  std::span<const std::string_view> types;
  std::span<const std::string_view> reductions;
  std::uint8_t receive = 0;  // the operation that receives from a peer
};

struct FlightIdentity {
  int rank = 0;  // in the group
  Members members;
  std::string group;  // unlike that of any other group of the run
  std::string host;
};

// Of a recv: whoever sends.
inline constexpr int kAnyPeer = -2;

// What is called. The label is this thread's (label.h).
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

// Names an operation's place until it has ended. One that was not recorded has none, which every
// call takes.
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

  // Never fails: a folder that cannot be used is told in the log, and memory takes its place.
  FlightRecorder(const FlightIdentity& identity, const FlightNames& names);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Queued: somebody else will carry it out.
  FlightTicket begin(const FlightCall& call) noexcept;
  // Begun and started at once.
  FlightTicket start(const FlightCall& call) noexcept;

  void started(FlightTicket ticket) noexcept;
  // A wait has turned slow. came: bytes that had come by then.
  void waiting(FlightTicket ticket, int peer, WaitFor what, std::uint64_t came) noexcept;
  // It is over. Of each peer these waits add up, for who looks for slow links afterwards. held_up:
  // the peer to which data are still on their way out; the wait counts as one for it, too, to take
  // them. -1: none.
  void resumed(FlightTicket ticket, int held_up = -1) noexcept;
  // The ticket is used up.
  void ended(FlightTicket ticket, bool well, std::uint64_t came) noexcept;

  // A copy, as the file would be; for any thread.
  std::vector<std::byte> snapshot() const;

 private:
  using Slot = FlightTicket::Slot;

  FlightTicket enter(const FlightCall& call, FlightState state) noexcept;
  Slot* free_slot() noexcept;
  void note_moment() noexcept;
  void keep_waits(Slot& slot) noexcept;

  const TickClock& clock_;
  const FlightMemory memory_;
  flight_format::Header<flight_format::SharedWord>& header_;
  Slot* const slots_;

  // Who begins.
  std::uint64_t next_ = 0;
  std::uint64_t number_ = 0;
  // The driver.
  std::uint64_t ends_ = 0;
  WaitFor waiting_for_{};         // in the slow wait
  PeerWaits waits_;               // of one operation
  const Slot* waiter_ = nullptr;  // that one
};

}  // namespace lockstep
