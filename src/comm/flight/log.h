// FlightLog: a flight record as read: checked, in order, in UTC. Bytes come from anywhere, so
// whatever does not hold together is refused, or counted if it is a single operation.
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
#include "comm/group/wait_for.h"

namespace lockstep {

using Nanoseconds = std::chrono::nanoseconds;
// UTC by the clock of the host that wrote it, so as good as the hosts' clocks agree.
using FlightTime = std::chrono::time_point<std::chrono::system_clock, Nanoseconds>;

struct FlightWait {
  int peer = 0;
  WaitFor what{};
  FlightTime since;
};

struct FlightPeerTime {
  int peer = 0;
  Nanoseconds span{};
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
  Bytes came;
  std::optional<int> root;  // a send's or recv's tag
  std::optional<int> peer;  // of a send or recv; kAnyPeer: of a recv from whoever sends
  FlightTime enqueued;
  std::optional<FlightTime> started;
  std::optional<FlightTime> ended;
  std::optional<FlightWait> wait;  // now; of one that failed: when it failed
  // Of one that is done: for whom its slow waits were longest, to take data and to send some.
  std::optional<FlightPeerTime> to_take;
  std::optional<FlightPeerTime> to_send;

  bool is_collective() const { return !peer; }
  bool under_way() const { return started && !ended; }
};

enum class ProcessState { unknown, runs, stopped, ended };

// All ranks in it, peers and roots too, are numbers in the run.
struct FlightLog {
  int rank = 0;
  int size = 1;              // of the group
  std::string group;         // unlike that of any other group of the run
  std::string name;          // of the group, for people
  std::vector<int> members;  // the group's ranks
  std::string host;
  std::optional<int> started_as;  // the rank with which its process was started, if that is known
  int pid = 0;
  std::uint64_t process_start = 0;
  std::string pid_space;
  ProcessState process = ProcessState::unknown;
  FlightTime begun;
  std::uint64_t dropped = 0;                // by the rank, because 4,096 were under way
  std::uint64_t unreadable = 0;             // half-written or damaged
  std::vector<FlightOperation> operations;  // in the order of submission

  // The last moment of which the record tells.
  FlightTime last_seen() const;
};

// Code::corrupt with the reason when it is no flight record, whole or brief.
Result<FlightLog> parse_flight(std::span<const std::byte> bytes);
// The bytes of a record of which a rank may go on writing; what it wrote to meanwhile is marked as
// half-written. Refuses what parse_flight() refuses. Errors name the file.
Result<std::vector<std::byte>> copy_flight_file(const std::filesystem::path& path);
// The same read. Errors name the file.
Result<FlightLog> read_flight_file(const std::filesystem::path& path);

// Its process, as seen from this machine; unknown where it ran on another.
ProcessState state_of_process(const FlightLog& log);
// Whether a file of that name in a folder of records is one.
bool is_flight_file(const std::filesystem::path& path);

struct FlightFolder {
  std::vector<FlightLog> logs;
  std::vector<Error> refused;  // files that could not be read
};
// All *.flight in it, with what is known of their processes. Code::not_found when there are none.
Result<FlightFolder> read_flight_folder(const std::filesystem::path& folder);

}  // namespace lockstep
