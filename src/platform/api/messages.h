// Every message of the HTTP API, described once: JSON, OpenAPI and the CLI's --json come from
// fields(). Times are UTC text, durations text such as "1h 30m" beside a number of seconds where
// programs compute with them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/core/model/attempt.h"
#include "platform/core/model/command.h"
#include "platform/core/model/run.h"
#include "text/record.h"

namespace lockstep::api {

// --- What users ask for and see ---

struct SubmitRequest {
  RunSpec spec;
  Origin origin;

  static constexpr auto fields() {
    return record<SubmitRequest>(required(field("spec", &SubmitRequest::spec, "what to run")),
                                 field("origin", &SubmitRequest::origin, "where it came from"));
  }
};

struct RankView {
  int rank = 0;
  int local_rank = 0;
  std::int64_t pid = 0;
  std::string state;
  int code = 0;

  static constexpr auto fields() {
    return record<RankView>(field("rank", &RankView::rank, "global rank"),
                            field("local_rank", &RankView::local_rank, "rank within its node"),
                            field("pid", &RankView::pid, "process id on the node's host"),
                            field("state", &RankView::state, "running, exited or killed"),
                            field("code", &RankView::code, "exit code, or the signal's number"));
  }
};

struct NodeView {
  int index = 0;
  std::string host;
  std::string state;
  std::string address;
  std::int64_t agent_pid = 0;
  std::string message;
  std::vector<RankView> ranks;

  static constexpr auto fields() {
    return record<NodeView>(field("index", &NodeView::index, "the node's number, GROUP_RANK"),
                            field("host", &NodeView::host, "the host's id in the map"),
                            field("state", &NodeView::state, "how far the node is"),
                            field("address", &NodeView::address, "where other nodes reach it"),
                            field("agent_pid", &NodeView::agent_pid, "process id of its agent"),
                            field("message", &NodeView::message, "what its agent said last"),
                            field("ranks", &NodeView::ranks, "its ranks"));
  }
};

struct AttemptView {
  std::int64_t epoch = 0;
  std::string state;
  std::string cause;
  std::string reason;
  Time created{};
  std::optional<Time> started;
  std::optional<Time> ended;
  std::vector<NodeView> nodes;

  static constexpr auto fields() {
    return record<AttemptView>(
        field("epoch", &AttemptView::epoch, "the attempt's number, from 1"),
        field("state", &AttemptView::state, "how far the attempt is"),
        field("cause", &AttemptView::cause, "why it ended"),
        field("reason", &AttemptView::reason, "the same for people"),
        field("created", &AttemptView::created, "when devices were reserved"),
        field("started", &AttemptView::started, "when all ranks ran"),
        field("ended", &AttemptView::ended, "when no process was left"),
        field("nodes", &AttemptView::nodes, "its nodes"));
  }
};

struct Progress {
  std::int64_t step = 0;
  std::int64_t steps = 0;  // 0: unknown

  static constexpr auto fields() {
    return record<Progress>(field("step", &Progress::step, "steps done"),
                            field("steps", &Progress::steps, "steps planned; 0 if unknown"));
  }
};

struct Checkpoint {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::string path;
  Time time{};

  static constexpr auto fields() {
    return record<Checkpoint>(field("step", &Checkpoint::step, "the step it holds"),
                              field("epoch", &Checkpoint::epoch, "the attempt that wrote it"),
                              field("path", &Checkpoint::path, "its folder"),
                              field("time", &Checkpoint::time, "when it was committed"));
  }
};

struct RunView {
  std::string id;  // demo/42
  std::string name;
  std::string state;
  std::string reason;
  std::int64_t version = 0;
  RunSpec spec;
  Origin origin;
  Time submitted{};
  std::optional<Time> started;
  std::optional<Time> ended;
  double running_seconds = 0;  // charged so far, the live attempt included
  std::string checkpoint_folder;
  std::vector<AttemptView> attempts;  // oldest first; empty in lists
  std::optional<Progress> progress;
  std::map<std::string, double> latest;  // last value of each metric
  std::vector<Checkpoint> checkpoints;   // oldest first; empty in lists

  static constexpr auto fields() {
    return record<RunView>(
        field("id", &RunView::id, "project/number"), field("name", &RunView::name, "its name"),
        field("state", &RunView::state,
              "queued, held, starting, running, succeeded, failed, "
              "timed_out or cancelled"),
        field("reason", &RunView::reason, "why it waits or why it ended"),
        field("version", &RunView::version, "grows with every change"),
        field("spec", &RunView::spec, "what was asked for"),
        field("origin", &RunView::origin, "where it came from"),
        field("submitted", &RunView::submitted, "when it was submitted"),
        field("started", &RunView::started, "when all its ranks first ran"),
        field("ended", &RunView::ended, "when it ended"),
        field("running_seconds", &RunView::running_seconds, "running time, over all attempts"),
        field("checkpoint_folder", &RunView::checkpoint_folder, "where its checkpoints are"),
        field("attempts", &RunView::attempts, "its attempts, oldest first; empty in lists"),
        field("progress", &RunView::progress, "steps done and planned"),
        field("latest", &RunView::latest, "the last value of each metric"),
        field("checkpoints", &RunView::checkpoints, "committed checkpoints; empty in lists"));
  }
};

struct RunList {
  std::vector<RunView> runs;  // newest first

  static constexpr auto fields() {
    return record<RunList>(field("runs", &RunList::runs, "runs, newest first"));
  }
};

struct StopRequest {
  std::string reason;

  static constexpr auto fields() {
    return record<StopRequest>(field("reason", &StopRequest::reason, "why; shown with the run"));
  }
};

struct LogLine {
  std::int64_t cursor = 0;  // of the daemon; ask for what comes after it
  std::int64_t epoch = 0;
  int rank = 0;
  std::string text;  // without the line's end

  static constexpr auto fields() {
    return record<LogLine>(field("cursor", &LogLine::cursor, "position; ask for what follows it"),
                           field("epoch", &LogLine::epoch, "the attempt"),
                           field("rank", &LogLine::rank, "the rank that wrote it"),
                           field("text", &LogLine::text, "the line"));
  }
};

struct LogPage {
  std::vector<LogLine> lines;
  std::int64_t next = 0;
  bool ended = false;  // the run has ended and nothing follows

  static constexpr auto fields() {
    return record<LogPage>(field("lines", &LogPage::lines, "lines in the order they arrived"),
                           field("next", &LogPage::next, "ask again after this cursor"),
                           field("ended", &LogPage::ended, "the run ended; nothing follows"));
  }
};

struct Point {
  std::int64_t step = 0;
  Time time{};
  double value = 0;

  static constexpr auto fields() {
    return record<Point>(field("step", &Point::step, "training step"),
                         field("time", &Point::time, "when the rank logged it"),
                         field("value", &Point::value, "may be NaN or infinite"));
  }
};

struct Series {
  std::string name;
  int rank = 0;
  std::vector<Point> points;  // by step

  static constexpr auto fields() {
    return record<Series>(field("name", &Series::name, "the metric"),
                          field("rank", &Series::rank, "the rank that logged it"),
                          field("points", &Series::points, "its points by step"));
  }
};

struct SeriesList {
  std::vector<Series> series;

  static constexpr auto fields() {
    return record<SeriesList>(field("series", &SeriesList::series, "the run's metrics"));
  }
};

struct Version {
  std::string version;
  std::string home;  // the daemon's folder
  std::int64_t pid = 0;

  static constexpr auto fields() {
    return record<Version>(field("version", &Version::version, "the daemon's version"),
                           field("home", &Version::home, "the daemon's folder"),
                           field("pid", &Version::pid, "the daemon's process id"));
  }
};

// --- What agents say and hear ---

struct RankReport {
  int rank = 0;
  int local_rank = 0;
  std::int64_t pid = 0;
  std::string state;
  int code = 0;
  bool signalled_by_us = false;
  std::optional<Time> ended;

  static constexpr auto fields() {
    return record<RankReport>(
        field("rank", &RankReport::rank, "global rank"),
        field("local_rank", &RankReport::local_rank, "rank within its node"),
        field("pid", &RankReport::pid, "process id"),
        field("state", &RankReport::state, "running, exited or killed"),
        field("code", &RankReport::code, "exit code, or the signal's number"),
        field("signalled_by_us", &RankReport::signalled_by_us, "the agent sent the signal"),
        field("ended", &RankReport::ended, "when it ended"));
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
        field("wait_seconds", &Heartbeat::wait_seconds, "how long the answer may wait"));
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
