// Every message of the HTTP API, described once: JSON, OpenAPI and the CLI's --json derive from
// fields(). Times are UTC text. Durations are text such as "1h 30m", with a number of seconds
// beside it where programs need one. These are the messages of users; agent_messages.h has those of
// agents, insight_messages.h those of logs and metrics.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "platform/api/agent_messages.h"
#include "platform/api/curve_messages.h"
#include "platform/api/insight_messages.h"
#include "platform/api/orphan_messages.h"
#include "platform/api/point_messages.h"
#include "platform/api/queue_messages.h"
#include "platform/core/model/attempt.h"
#include "platform/core/model/run.h"
#include "text/joined_record.h"
#include "text/record.h"

namespace lockstep::api {

// In the place of the values of env.
inline constexpr std::string_view kHiddenValue = "***";

// No query, no body.
struct None {
  static constexpr auto fields() { return record<None>(); }
};

inline constexpr std::int64_t kNumberMax = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kRankMax = std::numeric_limits<int>::max();
// Seconds for which an answer may be delayed until something changes.
inline constexpr std::int64_t kWaitMax = 30;

struct HealthQuery {
  std::optional<std::string> nonce;
  std::optional<std::string> attempt;
  std::optional<std::string> generation;
  std::optional<std::string> host{};
  std::optional<std::string> join{};
  std::optional<std::string> token{};

  static constexpr auto fields() {
    return record<HealthQuery>(
        field("nonce", &HealthQuery::nonce,
              "16 to 128 letters and digits: prove that you know the token"),
        field("attempt", &HealthQuery::attempt,
              "of this attempt, such as demo/42.2; without it the user's"),
        field("generation", &HealthQuery::generation, "of the store that made that attempt"),
        field("host", &HealthQuery::host, "the credential of this host, such as gpu1"),
        field("join", &HealthQuery::join,
              "the join token that begins so, such as gpu1:default:0:1795000000"),
        field("token", &HealthQuery::token,
              "the user's token with this id; absent: the one of the "
              "daemon's folder"));
  }
};

struct Health {
  std::string status = "ok";
  std::optional<std::string> proof;
  int heartbeat_version = 1;

  static constexpr auto fields() {
    return record<Health>(
        required(field("status", &Health::status, "ok")),
        field("proof", &Health::proof, "answers the nonce: docs/design/api.md says how it is made"),
        field("heartbeat_version", &Health::heartbeat_version,
              "of the heartbeats that the daemon reads; absent: 1"));
  }
};

// The value of a metric by which runs are sorted.
enum class SortValue { last, min, max };
constexpr auto enum_names(SortValue) {
  return names<SortValue>(
      {{SortValue::last, "last"}, {SortValue::min, "min"}, {SortValue::max, "max"}});
}

struct RunsQuery {
  std::optional<std::string> project;
  std::optional<model::RunState> state;
  int limit = 50;
  std::optional<std::string> tag = {};
  std::optional<std::string> user = {};
  std::optional<std::string> after = {};
  std::optional<Time> since = {}, until = {};
  std::optional<std::string> sort = {};
  std::optional<SortValue> value = {};
  std::optional<bool> descending = {};
  std::optional<std::string> query = {};

  static constexpr auto fields() {
    return record<RunsQuery>(
        field("project", &RunsQuery::project, "only runs of this project"),
        field("state", &RunsQuery::state, "only runs in this state"),
        between(1, 1000,
                field("limit", &RunsQuery::limit, "the greatest number of runs in the answer")),
        field("tag", &RunsQuery::tag, "only runs with this tag: KEY, or KEY=VALUE"),
        field("user", &RunsQuery::user, "only runs that this user submitted"),
        field("after", &RunsQuery::after, "the rest of a list: `next` of the answer before"),
        field("since", &RunsQuery::since, "only runs that were submitted then or later"),
        field("until", &RunsQuery::until, "only runs that were submitted before"),
        field(
            "sort", &RunsQuery::sort,
            "sort the runs that have this metric by its value, instead of newest first; runs whose "
            "value is NaN are left out"),
        field("value", &RunsQuery::value,
              "the value of the metric that counts, as of the lowest rank that logged it; absent: "
              "last"),
        field("descending", &RunsQuery::descending, "the greatest value first"),
        field("query", &RunsQuery::query,
              "also only runs that this line selects, in its order or groups, such as "
              "state:failed lr>=1e-3 sort:-loss: docs/design/run-query.md. An answer may have "
              "fewer runs than the limit, and still a `next`"));
  }
};

struct RunQuery {
  std::int64_t after_version = -1;
  double wait_seconds = 0;
  std::optional<bool> brief = {};  // absent: false; an older daemon does not know it

  static constexpr auto fields() {
    return record<RunQuery>(
        between(-1, kNumberMax,
                field("after_version", &RunQuery::after_version,
                      "answer when the run's version is over this one")),
        between(0, kWaitMax, field("wait", &RunQuery::wait_seconds, "seconds to wait for that")),
        field("brief", &RunQuery::brief, "without attempts, checkpoints and events"));
  }
};

struct LogsQuery {
  std::int64_t after = 0;
  std::optional<int> rank;
  std::optional<int> tail;
  int limit = 1000;
  double wait_seconds = 0;
  std::optional<std::int64_t> unfinished = {};

  static constexpr auto fields() {
    return record<LogsQuery>(
        between(0, kNumberMax, field("after", &LogsQuery::after, "only lines after this cursor")),
        between(0, kRankMax, field("rank", &LogsQuery::rank, "only lines of this rank")),
        between(0, 10'000,
                field("tail", &LogsQuery::tail, "the last lines instead of those after `after`")),
        between(1, 10'000,
                field("limit", &LogsQuery::limit, "the greatest number of lines in the answer")),
        between(0, kWaitMax,
                field("wait", &LogsQuery::wait_seconds, "seconds to wait for a line to come")),
        between(0, kNumberMax,
                field("unfinished", &LogsQuery::unfinished,
                      "wait no longer either when `unfinished_version` differs from this")));
  }
};

// Searches a part of the lines: ask again after `next` until the answer says `ended`.
struct LogSearchQuery {
  std::string pattern = {};
  bool ignore_case = false;
  int context = 0;
  std::optional<int> rank = {};
  std::int64_t after = 0;

  static constexpr auto fields() {
    return record<LogSearchQuery>(
        required(field("pattern", &LogSearchQuery::pattern,
                       "a regular expression in the syntax of RE2, at most 1000 bytes")),
        field("ignore_case", &LogSearchQuery::ignore_case, "upper and lower case are the same"),
        between(0, 20,
                field("context", &LogSearchQuery::context,
                      "lines before and after each match that the answer has, too")),
        between(0, kRankMax, field("rank", &LogSearchQuery::rank, "only lines of this rank")),
        between(0, kNumberMax,
                field("after", &LogSearchQuery::after, "only lines after this cursor")));
  }
};

// Without `after` the request goes to the agents again. With the `asked` of an earlier answer,
// records that came since then are enough. So a client requests once and reads node by node.
struct FlightQuery {
  int node = 0;
  std::optional<Time> after;
  double wait_seconds = 0;

  static constexpr auto fields() {
    return record<FlightQuery>(
        between(0, kRankMax, field("node", &FlightQuery::node, "its number in the attempt")),
        field("after", &FlightQuery::after, "what was delivered since then will do"),
        between(0, kWaitMax,
                field("wait", &FlightQuery::wait_seconds, "seconds to wait for its agent")));
  }
};

// The records of one node of a run's newest attempt.
struct FlightView {
  int node = 0;
  std::string host;
  Time asked{};
  std::optional<Time> delivered;
  int left_out = 0;
  std::vector<FlightRecord> records;

  static constexpr auto fields() {
    return record<FlightView>(
        field("node", &FlightView::node, "its number in the attempt"),
        field("host", &FlightView::host, "where it ran or runs"),
        field("asked", &FlightView::asked, "when the agents were asked; `after` of the next call"),
        field("delivered", &FlightView::delivered, "when the records came; null: none came yet"),
        field("left_out", &FlightView::left_out, "records for which there was no room"),
        field("records", &FlightView::records, "one for each rank and group"));
  }
};

struct MetricsQuery {
  std::optional<std::string> name;
  std::optional<int> rank;
  std::int64_t after_step = -1;
  std::int64_t points = 10'000;
  std::optional<int> node{};
  std::optional<std::int64_t> pixels{};
  std::optional<std::int64_t> epoch{};
  std::optional<RankSelection> ranks{};

  static constexpr auto fields() {
    return record<MetricsQuery>(
        field("name", &MetricsQuery::name, "only this metric"),
        between(0, kRankMax, field("rank", &MetricsQuery::rank, "only points of this rank")),
        between(-1, kNumberMax,
                field("after_step", &MetricsQuery::after_step, "only points after this step")),
        between(1, 100'000,
                field("points", &MetricsQuery::points,
                      "the greatest number over all series; more are downsampled")),
        between(0, kRankMax,
                field("node", &MetricsQuery::node,
                      "the telemetry of this node, instead of the metrics of ranks")),
        between(
            1, 20'000,
            field("pixels", &MetricsQuery::pixels,
                  "stretches of steps of equal length for each series; a stretch of more points "
                  "has its first, last, least and greatest and the first NaN")),
        between(1, kNumberMax,
                field("epoch", &MetricsQuery::epoch,
                      "only points of this attempt; absent: for each step the newest attempt's")),
        field("ranks", &MetricsQuery::ranks,
              "aggregate: of a metric of several ranks mean, min, max and spread over them; each: "
              "the series of each rank. Absent: aggregate, or the series of the rank that is "
              "given. aggregate with `node`: the least and greatest value of each minute, too, of "
              "old telemetry"));
  }
};

struct SubmitRequest {
  model::RunSpec spec;
  model::Origin origin;
  std::string request_id{};  // a new one for each run, the same for repeated calls

  static constexpr auto fields() {
    return record<SubmitRequest>(
        required(field("spec", &SubmitRequest::spec, "what to run")),
        field("origin", &SubmitRequest::origin, "where it came from"),
        field("request_id", &SubmitRequest::request_id,
              "names this submission, such as a UUID: a call with the same one again makes no "
              "second run, it answers the first; at most 64 letters, digits, '-', '_' and '.'"));
  }
};

struct RankView {
  int rank = 0;
  int local_rank = 0;
  std::int64_t pid = 0;
  model::RankState state = model::RankState::running;
  int code = 0;
  std::int64_t step = -1;
  model::Activity activity = model::Activity::unknown;
  std::optional<Time> stalled_since{};
  std::optional<Time> activity_since{};
  report::Fault fault = report::Fault::none;
  int fault_rank = -1;
  std::string fault_text;
  int restarts = 0;

  static constexpr auto fields() {
    return record<RankView>(
        field("rank", &RankView::rank, "global rank"),
        field("local_rank", &RankView::local_rank, "rank within its node"),
        field("pid", &RankView::pid, "process id on the node's host"),
        field("state", &RankView::state, "how its process is"),
        field("code", &RankView::code, "exit code, or the signal's number"),
        field("step", &RankView::step, "the last that it reported; -1: none"),
        field("activity", &RankView::activity,
              "what its process did when last looked at; blocked: in the kernel, "
              "stopped: by SIGSTOP or a debugger"),
        field("stalled_since", &RankView::stalled_since,
              "its last progress, once that is hang_after ago"),
        field("activity_since", &RankView::activity_since, "since when it is blocked or stopped"),
        field("fault", &RankView::fault, "why it had to end, as it said itself"),
        field("fault_rank", &RankView::fault_rank, "the global rank at fault; -1: not known"),
        field("fault_text", &RankView::fault_text, "its text"),
        field("restarts", &RankView::restarts, "how often its agent has started it again"));
  }
};

// A rank of a running attempt that the others may be waiting for.
struct LateRank {
  int rank = 0;
  std::string host;
  model::RankState state = model::RankState::running;
  int code = 0;
  model::Activity activity = model::Activity::unknown;
  std::int64_t step = -1;
  std::optional<Time> since{};

  static constexpr auto fields() {
    return record<LateRank>(
        field("rank", &LateRank::rank, "global rank"),
        field("host", &LateRank::host, "where it is"),
        field("state", &LateRank::state, "how its process is"),
        field("code", &LateRank::code, "exit code, or the signal's number"),
        field("activity", &LateRank::activity, "what its process does"),
        field("step", &LateRank::step, "the last that it reported; -1: none"),
        field("since", &LateRank::since, "since when it is stopped, blocked, gone or silent"));
  }
};

// A node of a live attempt whose agent is silent. Its ranks may go on.
struct UnreachableNode {
  int node = 0;
  std::string host;
  Time since{};

  static constexpr auto fields() {
    return record<UnreachableNode>(
        field("node", &UnreachableNode::node, "the node's number"),
        field("host", &UnreachableNode::host, "where it is"),
        field("since", &UnreachableNode::since, "its agent's last call"));
  }
};

struct NodeView {
  int index = 0;
  std::string host;
  model::NodeState state = model::NodeState::allocated;
  std::string address;
  std::int64_t agent_pid = 0;
  std::string message;
  std::optional<Time> unreachable_since;
  std::string handle;
  std::string pending_reason;
  std::vector<RankView> ranks;
  std::optional<Time> given_up_since{};
  std::string nccl_network{};

  static constexpr auto fields() {
    return record<NodeView>(
        field("index", &NodeView::index, "the node's number, GROUP_RANK"),
        field("host", &NodeView::host, "the host's id in the map"),
        field("state", &NodeView::state, "how far the node is"),
        field("address", &NodeView::address, "where other nodes reach it"),
        field("agent_pid", &NodeView::agent_pid, "process id of its agent"),
        field("message", &NodeView::message, "what its agent said last"),
        field("unreachable_since", &NodeView::unreachable_since,
              "while it is unreachable: its agent's last call"),
        field("handle", &NodeView::handle, "its engine's own name of it, such as a job's id"),
        field("pending_reason", &NodeView::pending_reason,
              "why it waits in its engine's own queue"),
        field("ranks", &NodeView::ranks, "its ranks"),
        field("given_up_since", &NodeView::given_up_since,
              "since when its attempt no longer waits for it: its host does not answer, and its "
              "processes may still run; absent: it waits, or the node is gone"),
        field("nccl_network", &NodeView::nccl_network,
              "which network NCCL uses on a node with GPUs, and why"));
  }
};

struct AttemptView {
  std::int64_t epoch = 0;
  std::string generation;
  std::string engine;
  model::AttemptState state = model::AttemptState::reserved;
  model::Cause cause = model::Cause::none;
  std::string reason;
  Time created{};
  std::optional<Time> started;
  std::optional<Time> ended;
  std::vector<NodeView> nodes;
  std::optional<RankError> first_error = {};

  static constexpr auto fields() {
    return record<AttemptView>(
        field("epoch", &AttemptView::epoch, "the attempt's number, from 1"),
        field("generation", &AttemptView::generation,
              "of the store that made it; its folders and its ranks' LOCKSTEP_STORE have it"),
        field("engine", &AttemptView::engine, "what starts its agents"),
        field("state", &AttemptView::state, "how far the attempt is"),
        field("cause", &AttemptView::cause, "why it ended"),
        field("reason", &AttemptView::reason, "the same for people"),
        field("created", &AttemptView::created, "when devices were reserved"),
        field("started", &AttemptView::started, "when all ranks ran"),
        field("ended", &AttemptView::ended, "when no process was left"),
        field("nodes", &AttemptView::nodes, "its nodes"),
        field(
            "first_error", &AttemptView::first_error,
            "the error of the rank that failed first, if its output has one; of the last attempts "
            "that failed"));
  }
};

// In weighted device-minutes (docs/design/budgets.md).
struct CostView {
  double so_far_minutes = 0;
  double at_limit_minutes = 0;

  static constexpr auto fields() {
    return record<CostView>(
        field("so_far_minutes", &CostView::so_far_minutes, "device-minutes that it was charged"),
        field("at_limit_minutes", &CostView::at_limit_minutes,
              "device-minutes if it runs until its time limit"));
  }
};

struct RunView {
  std::string id;  // demo/42
  std::string generation;
  std::string name;
  model::RunState state = model::RunState::queued;
  std::string reason;
  std::optional<std::string> blocker;
  std::optional<Time> expected_start;
  std::optional<Time> latest_start;
  int priority = 0;
  int share = 100;
  bool held = false;
  std::int64_t version = 0;
  model::RunSpec spec;  // values of `env` are hidden
  std::map<std::string, std::string> env_digests = {};
  model::Origin origin;
  std::map<std::string, std::string> tags = {};
  std::string note = {};
  std::string launcher = {};
  Time submitted{};
  std::optional<Time> started;
  std::optional<Time> ended;
  double running_seconds = 0;               // charged so far, the live attempt included
  std::optional<Duration> time_limit = {};  // none: of an external run
  CostView cost = {};
  int user_exits = 0;  // of spec.retries
  int losses = 0;      // of spec.rank_loss_retries
  int moves = 0;
  std::vector<LateRank> late;  // the most suspicious first
  std::vector<UnreachableNode> unreachable;
  std::string checkpoint_folder;
  std::vector<AttemptView> attempts;  // oldest first; empty in lists
  std::optional<Progress> progress;
  std::map<std::string, double> latest;    // last value of each metric
  std::vector<Checkpoint> checkpoints;     // oldest first; empty in lists
  std::vector<model::AuditEntry> events;   // empty in lists
  std::vector<std::string> problems = {};  // of the daemon; empty in lists

  static constexpr auto submitted_fields() {
    return record<RunView>(
        field("id", &RunView::id, "project/number"),
        field("generation", &RunView::generation,
              "of the store that it was submitted to; its folder has it"),
        field("name", &RunView::name, "its name"), field("state", &RunView::state, "how far it is"),
        field("reason", &RunView::reason, "why it waits or why it ended"),
        field("blocker", &RunView::blocker, "while it waits: the run that must end or start first"),
        field("expected_start", &RunView::expected_start,
              "while it waits, an estimate: when it starts if all run as long as they may and none "
              "passes another; absent: there is no estimate"),
        field(
            "latest_start", &RunView::latest_start,
            "while it waits: it starts no later as long as nothing is submitted that may pass it, "
            "no time limit is "
            "lengthened, no run is interrupted and no host leaves; absent: there is no such bound"),
        field("priority", &RunView::priority, "among the runs of its project"),
        field("share", &RunView::share,
              "how far its project was beyond its fair share when it came, in percent; so much its "
              "time-out counts for its place in the queue"),
        field("held", &RunView::held, "it does not start until it is released"),
        field("version", &RunView::version,
              "grows with every change, but not with that of the expected start"),
        field("spec", &RunView::spec, "what was asked for; values of env are shown as ***"),
        field(
            "env_digests", &RunView::env_digests,
            "a keyed digest of each value of env: the same value of a variable has the same one in "
            "each run of the daemon; empty in lists"),
        field("origin", &RunView::origin, "where it came from"),
        field("tags", &RunView::tags, "that users gave it"),
        field("note", &RunView::note, "that a user wrote about it"),
        field("launcher", &RunView::launcher,
              "of an external run: what started its ranks, such as torchrun; empty: Lockstep"));
  }
  static constexpr auto progress_fields() {
    return record<RunView>(
        field("submitted", &RunView::submitted, "when it was submitted"),
        field("started", &RunView::started, "when all its ranks first ran"),
        field("ended", &RunView::ended, "when it ended"),
        field("running_seconds", &RunView::running_seconds, "running time, over all attempts"),
        field("time_limit", &RunView::time_limit,
              "running time after which it is stopped, with what users have added"),
        field("cost", &RunView::cost, "what its project pays"),
        field("user_exits", &RunView::user_exits, "retries used of spec.retries"),
        field("losses", &RunView::losses,
              "retries used of spec.rank_loss_retries since its newest checkpoint"),
        field("moves", &RunView::moves, "how often it was moved to other devices, of three times"),
        field("late", &RunView::late,
              "while it runs: ranks that are stopped, blocked, gone or silent, the most "
              "suspicious first"),
        field("unreachable", &RunView::unreachable,
              "nodes whose agents are silent, longest first; their ranks may go on"),
        field("checkpoint_folder", &RunView::checkpoint_folder, "where its checkpoints are"),
        field("attempts", &RunView::attempts, "its attempts, oldest first; empty in lists"),
        field("progress", &RunView::progress, "steps done and planned"),
        field("latest", &RunView::latest, "the last value of each metric"),
        field("checkpoints", &RunView::checkpoints, "committed checkpoints; empty in lists"),
        field(
            "events", &RunView::events,
            "what people and Lockstep changed of it and what happened to its ranks, oldest first; "
            "empty in lists"),
        field("problems", &RunView::problems,
              "what goes wrong in the daemon just now, a line for each cause; empty in lists, "
              "which say it once"));
  }
  static constexpr auto fields() { return joined(submitted_fields(), progress_fields()); }
};

// Runs with the same value of the field of `group:`.
struct RunGroup {
  std::string value;
  std::int64_t runs = 0;
  std::map<std::string, std::int64_t> states = {};
  std::int64_t numbers = 0;
  double sum = 0, least = 0, greatest = 0;

  static constexpr auto fields() {
    return record<RunGroup>(
        field("value", &RunGroup::value, "the value; empty: of runs that have none"),
        field("runs", &RunGroup::runs, "its runs"),
        field("states", &RunGroup::states, "its runs by state"),
        field("numbers", &RunGroup::numbers,
              "its runs with a finite number in the field of `sort:`"),
        field("sum", &RunGroup::sum, "of these numbers"),
        field("least", &RunGroup::least, "the least of these numbers"),
        field("greatest", &RunGroup::greatest, "the greatest of these numbers"));
  }
};

struct RunList {
  std::vector<RunView> runs;  // newest first
  std::vector<std::string> problems = {};
  std::vector<std::string> notices = {};
  std::optional<std::string> next = {};
  std::vector<double> values = {};
  std::vector<std::string> sorted = {};
  std::vector<RunGroup> groups = {};

  static constexpr auto fields() {
    return record<RunList>(
        field("runs", &RunList::runs, "runs, newest first or as they were to be sorted"),
        field("problems", &RunList::problems,
              "what goes wrong in the daemon just now, a line for each cause"),
        field("notices", &RunList::notices, "what operators should know, a line each"),
        field("next", &RunList::next, "`after` of the query for the rest; null: these are all"),
        field("values", &RunList::values, "of sorted runs, the value of each"),
        field("sorted", &RunList::sorted,
              "of runs that a query with `sort:` selects, the value of each; empty: it has none"),
        field("groups", &RunList::groups,
              "instead of runs, if the query has `group:`: the groups of the runs that the call "
              "looked at, in the order of their first runs; add up those of all answers"));
  }
};

struct RemovedRun {
  std::string run;
  std::string checkpoint_folder;

  static constexpr auto fields() {
    return record<RemovedRun>(
        field("run", &RemovedRun::run, "the run that was removed"),
        field("checkpoint_folder", &RemovedRun::checkpoint_folder,
              "the folder that its user chose for its checkpoints, which stays; empty: its own"));
  }
};

struct StopRequest {
  std::string reason;

  static constexpr auto fields() {
    return record<StopRequest>(field("reason", &StopRequest::reason, "why; shown with the run"));
  }
};

// Empty: the path names the run.
struct ResumeRequest {
  static constexpr auto fields() { return record<ResumeRequest>(); }
};

struct AnnotateRequest {
  std::optional<std::map<std::string, std::string>> tags{};
  std::optional<std::string> note{};

  static constexpr auto fields() {
    return record<AnnotateRequest>(
        field("tags", &AnnotateRequest::tags,
              "those to set, with at most 256 bytes; an empty value removes the tag, others stay"),
        field("note", &AnnotateRequest::note,
              "instead of the one that it has, with at most 4096 bytes; absent: it stays"));
  }
};

struct Version {
  std::string version;
  std::string home;  // the daemon's folder
  std::int64_t pid = 0;
  std::vector<std::string> problems = {};
  std::vector<std::string> notices = {};
  double loop_lag_seconds = 0;
  std::optional<Bytes> upload_limit = {};

  static constexpr auto fields() {
    return record<Version>(
        field("version", &Version::version, "the daemon's version"),
        field("home", &Version::home, "the daemon's folder"),
        field("pid", &Version::pid, "the daemon's process id"),
        field("problems", &Version::problems, "what goes wrong just now, a line for each cause"),
        field("notices", &Version::notices, "what operators should know, a line each"),
        field("loop_lag_seconds", &Version::loop_lag_seconds,
              "the longest delay of a call by the daemon's other work in the last minutes"),
        field("upload_limit", &Version::upload_limit,
              "the size of a folder that may be uploaded; null: none may"));
  }
};

}  // namespace lockstep::api
