// Messages between agents and the daemon; see messages.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "platform/api/profile_messages.h"
#include "platform/api/stream_messages.h"
#include "platform/core/model/attempt.h"
#include "platform/core/model/command.h"
#include "platform/spool/telemetry_item.h"
#include "text/record.h"

namespace lockstep::api {

// Flight record of a rank for the collectives of one group (comm/flight), shortened for transfer.
struct FlightRecord {
  std::string bytes;
  bool ended = false;

  bool operator==(const FlightRecord&) const = default;

  static constexpr auto fields() {
    return record<FlightRecord>(
        required(field("bytes", &FlightRecord::bytes, "of a flight record, in base64")),
        field("ended", &FlightRecord::ended, "its process had ended"));
  }
};

// The flight records of all ranks of a node.
struct FlightDelivery {
  std::vector<FlightRecord> records;
  int left_out = 0;

  bool operator==(const FlightDelivery&) const = default;

  static constexpr auto fields() {
    return record<FlightDelivery>(
        required(field("records", &FlightDelivery::records, "one for each rank and group")),
        field("left_out", &FlightDelivery::left_out, "records for which there was no room"));
  }
};

// An incomplete last line of a rank's output, such as a progress bar.
struct UnfinishedLine {
  int rank = 0;
  std::string text;

  bool operator==(const UnfinishedLine&) const = default;

  static constexpr auto fields() {
    return record<UnfinishedLine>(
        field("rank", &UnfinishedLine::rank, "the rank that writes it"),
        field("text", &UnfinishedLine::text, "its first 1,024 bytes as a terminal shows them"));
  }
};

struct HeartbeatQuery {
  std::optional<std::string> generation;  // absent: created before stores had one

  static constexpr auto fields() {
    return record<HeartbeatQuery>(
        field("generation", &HeartbeatQuery::generation, "of the store that made the attempt"));
  }
};

struct Heartbeat {
  std::string node;  // demo/42.2/0
  model::NodeState state = model::NodeState::ready;
  std::string address;
  int master_port = 0;
  int rendezvous_port = 0;
  std::int64_t agent_pid = 0;
  // This start of the agent. No incarnation: sent by an older agent.
  std::string incarnation = {};
  std::string machine = {};
  std::optional<Time> agent_started = {};
  model::StopReason stop_reason = model::StopReason::none;
  std::string message;
  std::vector<model::Rank> ranks;
  // The times in `ranks` are those of a clock that is never set: the wall clock at the start of the
  // agent, plus the steady clock since then. No zero: sent by an older agent.
  std::string boot = {};
  std::optional<Time> clock_zero = {};
  std::vector<spool::TelemetryItem> items;
  std::vector<UnfinishedLine> unfinished = {};  // current ones; never stored
  std::optional<FlightDelivery> flight;         // in the call after an answer that requested it
  std::optional<ProfileReport> profile = {};    // while answers have an order
  // The command that the agent executes already: the answer waits until there is another, at most
  // this long.
  model::CommandKind known_command = model::CommandKind::none;
  std::optional<Duration> known_time_left = {};  // the same for its time limit
  double wait_seconds = 0;
  std::optional<Time> idle_since = {};  // a moment like those in `ranks`
  std::string nccl_network = {};        // which network NCCL uses, and why; empty: no GPUs

  bool operator==(const Heartbeat&) const = default;

  static constexpr auto fields() {
    return record<Heartbeat>(
        required(field("node", &Heartbeat::node, "project/number.epoch/index")),
        required(field("state", &Heartbeat::state, "how far the node is")),
        field("address", &Heartbeat::address, "where other nodes reach it"),
        field("master_port", &Heartbeat::master_port, "reserved for the ranks"),
        field("rendezvous_port", &Heartbeat::rendezvous_port, "the rendezvous's port"),
        field("agent_pid", &Heartbeat::agent_pid, "the agent's process id"),
        field("incarnation", &Heartbeat::incarnation, "random, of each start of an agent"),
        field("machine", &Heartbeat::machine, "the name of the agent's host, as it says itself"),
        field("agent_started", &Heartbeat::agent_started, "when the agent started"),
        field("stop_reason", &Heartbeat::stop_reason, "why it ends its ranks without a command"),
        field("message", &Heartbeat::message, "what went wrong, if anything"),
        field("ranks", &Heartbeat::ranks, "the node's ranks"),
        field("boot", &Heartbeat::boot, "which boot of its machine the agent lives in"),
        field(
            "clock_zero", &Heartbeat::clock_zero,
            "what the clock of the ranks' moments showed when the steady clock of that boot stood "
            "at zero"),
        field("items", &Heartbeat::items, "collected since the last answer"),
        field("unfinished", &Heartbeat::unfinished, "lines that its ranks have not ended yet"),
        field("flight", &Heartbeat::flight, "what its ranks recorded of their collectives"),
        field("profile", &Heartbeat::profile, "the traces of its ranks that were ordered"),
        field("known_command", &Heartbeat::known_command, "the command it acts on already"),
        field("known_time_left", &Heartbeat::known_time_left, "the time limit it acts on already"),
        between(0, 30,
                field("wait_seconds", &Heartbeat::wait_seconds, "how long the answer may wait")),
        field("idle_since", &Heartbeat::idle_since,
              "since when its processes do not compute; absent: they do"),
        field("nccl_network", &Heartbeat::nccl_network,
              "which network NCCL uses on a node with GPUs, and why"));
  }
};

struct HeartbeatAnswer {
  model::CommandKind command = model::CommandKind::none;
  std::int64_t acknowledged = 0;  // items up to this sequence are durable
  std::string master_address;
  int master_port = 0;
  std::string rendezvous;
  double grace_seconds = 0;
  std::optional<Duration> time_left = {};
  bool flight_wanted = false;
  bool orphaned = false;
  std::optional<ProfileOrder> profile = {};
  // The order to prepare for shells; absent: there is none.
  std::optional<std::string> shell = {};
  std::vector<StreamOrder> streams = {};
  // Absent: of an older daemon. The agent keeps its own interval, and sends more items at once.
  std::optional<double> interval_seconds = {};
  std::optional<double> batch_pause_seconds = {};

  static constexpr auto fields() {
    return record<HeartbeatAnswer>(
        field("command", &HeartbeatAnswer::command, "what the agent is to do"),
        field("acknowledged", &HeartbeatAnswer::acknowledged, "items up to here are durable"),
        field("master_address", &HeartbeatAnswer::master_address, "MASTER_ADDR"),
        field("master_port", &HeartbeatAnswer::master_port, "MASTER_PORT"),
        field("rendezvous", &HeartbeatAnswer::rendezvous, "host:port of the rendezvous"),
        field("grace_seconds", &HeartbeatAnswer::grace_seconds, "between signal and kill"),
        field("time_left", &HeartbeatAnswer::time_left,
              "running time that the attempt has in all, which users can extend"),
        field("flight_wanted", &HeartbeatAnswer::flight_wanted,
              "the next call is to bring what the ranks recorded of their collectives"),
        field("orphaned", &HeartbeatAnswer::orphaned,
              "the daemon's store does not know the node: it continues by itself, keeps its items "
              "and "
              "calls every few seconds"),
        field("profile", &HeartbeatAnswer::profile, "the traces that its ranks are to take"),
        field("shell", &HeartbeatAnswer::shell,
              "an id: users wait until the node is prepared for shells"),
        field("streams", &HeartbeatAnswer::streams, "the streams that the agent is to open"),
        field("interval_seconds", &HeartbeatAnswer::interval_seconds,
              "between two calls, from now on"),
        field("batch_pause_seconds", &HeartbeatAnswer::batch_pause_seconds,
              "until the next call while the agent has more items"));
  }
};

}  // namespace lockstep::api
