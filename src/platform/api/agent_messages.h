// What agents say to the daemon and hear from it; see messages.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "text/record.h"

namespace lockstep::api {

struct RankReport {
  int rank = 0;
  int local_rank = 0;
  std::int64_t pid = 0;
  std::string state;
  int code = 0;
  bool signalled_by_us = false;
  std::optional<Time> ended{};
  std::int64_t step = -1;
  std::string activity = "unknown";
  std::optional<Time> stalled_since{};

  static constexpr auto fields() {
    return record<RankReport>(
        field("rank", &RankReport::rank, "global rank"),
        field("local_rank", &RankReport::local_rank, "rank within its node"),
        field("pid", &RankReport::pid, "process id"),
        field("state", &RankReport::state, "running, exited or killed"),
        field("code", &RankReport::code, "exit code, or the signal's number"),
        field("signalled_by_us", &RankReport::signalled_by_us, "the agent sent the signal"),
        field("ended", &RankReport::ended, "when it ended"),
        field("step", &RankReport::step, "the last that it reported; -1: none"),
        field("activity", &RankReport::activity,
              "of its process: unknown, running, sleeping, blocked or stopped"),
        field("stalled_since", &RankReport::stalled_since,
              "its last progress, once that is hang_after ago"));
  }
};

// One thing that an agent collected. kind: log, metrics, progress, checkpoint. The (node, sequence)
// pair is kept by the daemon, so that what is sent twice counts once.
struct SpoolItem {
  std::int64_t sequence = 0;
  std::string kind;
  int rank = 0;
  std::int64_t step = 0;
  std::int64_t steps = 0;  // progress
  Time time{};
  std::string text;                      // log: whole lines; checkpoint: its path
  std::map<std::string, double> values;  // metrics

  static constexpr auto fields() {
    return record<SpoolItem>(field("sequence", &SpoolItem::sequence, "grows by one within a node"),
                             field("kind", &SpoolItem::kind, "log, metrics, progress, checkpoint"),
                             field("rank", &SpoolItem::rank, "the rank it came from"),
                             field("step", &SpoolItem::step, "training step"),
                             field("steps", &SpoolItem::steps, "steps planned"),
                             field("time", &SpoolItem::time, "when it happened"),
                             field("text", &SpoolItem::text, "log lines, or a checkpoint's path"),
                             field("values", &SpoolItem::values, "metrics by name"));
  }
};

struct Heartbeat {
  std::string node;  // demo/42.2/0
  std::string state;
  std::string address;
  int master_port = 0;
  int rendezvous_port = 0;
  std::int64_t agent_pid = 0;
  std::string message;
  std::vector<RankReport> ranks;
  std::vector<SpoolItem> items;
  std::string known_command;  // what the agent already acts on: the answer waits until it differs
  double wait_seconds = 0;    // at most this long

  static constexpr auto fields() {
    return record<Heartbeat>(
        required(field("node", &Heartbeat::node, "project/number.epoch/index")),
        required(field("state", &Heartbeat::state, "the node's state")),
        field("address", &Heartbeat::address, "where other nodes reach it"),
        field("master_port", &Heartbeat::master_port, "reserved for the ranks"),
        field("rendezvous_port", &Heartbeat::rendezvous_port, "the meeting place's port"),
        field("agent_pid", &Heartbeat::agent_pid, "the agent's process id"),
        field("message", &Heartbeat::message, "what went wrong, if anything"),
        field("ranks", &Heartbeat::ranks, "the node's ranks"),
        field("items", &Heartbeat::items, "collected since the last answer"),
        field("known_command", &Heartbeat::known_command, "the command it acts on already"),
        between(0, 30,
                field("wait_seconds", &Heartbeat::wait_seconds, "how long the answer may wait")));
  }
};

struct HeartbeatAnswer {
  std::string command = "none";   // none, start, stop, leave
  std::int64_t acknowledged = 0;  // items up to this sequence are durable
  std::string master_address;
  int master_port = 0;
  std::string rendezvous;
  double grace_seconds = 0;

  static constexpr auto fields() {
    return record<HeartbeatAnswer>(
        field("command", &HeartbeatAnswer::command, "none, start, stop or leave"),
        field("acknowledged", &HeartbeatAnswer::acknowledged, "items up to here are durable"),
        field("master_address", &HeartbeatAnswer::master_address, "MASTER_ADDR"),
        field("master_port", &HeartbeatAnswer::master_port, "MASTER_PORT"),
        field("rendezvous", &HeartbeatAnswer::rendezvous, "host:port of the meeting place"),
        field("grace_seconds", &HeartbeatAnswer::grace_seconds, "between signal and kill"));
  }
};

}  // namespace lockstep::api
