// FlightLog: a parsed flight record: checked, in order, in UTC. The bytes may come from any source.
// So an inconsistent record is rejected, and an inconsistent operation is only counted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "comm/flight/recorder.h"
#include "comm/group/wait_reason.h"

namespace lockstep::comm {

using Nanoseconds = std::chrono::nanoseconds;
// UTC by the clock of the host that wrote it, so only as exact as the hosts' clocks agree.
using FlightTime = std::chrono::time_point<std::chrono::system_clock, Nanoseconds>;

struct FlightWait {
  int peer = 0;
  WaitReason reason{};
  FlightTime since;
};

struct FlightPeerWait {
  int peer = 0;
  Nanoseconds duration{};
};

struct FlightOperation {
  std::uint64_t sequence = 0;
  FlightState state = FlightState::queued;
  std::string name;
  bool receives = false;  // from a peer
  std::string label;
  std::string type;       // empty: none
  std::string reduction;  // empty: none
  Bytes bytes;
  Bytes received;
  std::optional<int> root;  // a send's or recv's tag
  std::optional<int> peer;  // of a send or recv; kAnyPeer: of a recv from any peer
  FlightTime enqueued;
  std::optional<FlightTime> started;
  std::optional<FlightTime> ended;
  // the current wait; for a failed operation: the one when it failed
  std::optional<FlightWait> wait;
  // For a completed operation: the peers of its longest slow waits, to send data and to receive
  // data.
  std::optional<FlightPeerWait> longest_send_wait;
  std::optional<FlightPeerWait> longest_receive_wait;

  bool is_collective() const { return !peer; }
  bool under_way() const { return started && !ended; }
};

enum class ProcessState { unknown, runs, stopped, ended };

// All ranks in it, including peers and roots, are global ranks.
struct FlightLog {
  int rank = 0;
  int size = 1;              // of the group
  std::string group;         // unique among all groups of the run
  std::string name;          // of the group, for messages
  std::vector<int> members;  // the group's ranks
  std::string host;
  std::optional<int> launch_rank;  // the rank with which its process was started, if known
  int pid = 0;
  std::uint64_t process_start = 0;
  std::string pid_space;
  ProcessState process = ProcessState::unknown;
  bool ends_are_exact = true;  // else they are when a thread of the rank noticed them
  FlightTime recorded_since;
  std::uint64_t dropped = 0;                // by the rank, because 4,096 were in flight
  std::uint64_t unreadable = 0;             // half-written or damaged
  std::vector<FlightOperation> operations;  // in the order of submission

  // The last time in the record.
  FlightTime last_seen() const;
};

// Code::corrupt with the reason when it is no flight record, complete or summary.
Result<FlightLog> parse_flight(std::span<const std::byte> bytes);
// The bytes of a record that a rank may still write; parts that it wrote during the copy are marked
// as half-written. Rejects what parse_flight() rejects. Errors name the file.
Result<std::vector<std::byte>> copy_flight_file(const std::filesystem::path& path);
// Reads and parses such a file. Errors name the file.
Result<FlightLog> read_flight_file(const std::filesystem::path& path);

// The state of its process, as seen from this machine; unknown where it ran on another.
ProcessState state_of_process(const FlightLog& log);
// True if a file of that name in a folder of records is a record.
bool is_flight_file(const std::filesystem::path& path);

}  // namespace lockstep::comm
