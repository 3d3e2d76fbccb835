// A run: the user's request (RunSpec, never changed) and its current state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "platform/core/budget/device_time.h"
#include "platform/core/model/annotation.h"
#include "platform/core/model/audit.h"
#include "platform/core/model/ids.h"
#include "platform/core/model/needs.h"
#include "platform/core/model/pod_request.h"
#include "platform/core/model/run_class.h"
#include "platform/core/model/settings/settings.h"
#include "platform/core/model/slurm_request.h"
#include "platform/core/model/software_environment.h"
#include "text/joined_record.h"
#include "text/record.h"

namespace lockstep::model {

enum class RunState { queued, starting, running, succeeded, failed, timed_out, cancelled };
constexpr auto enum_names(RunState) {
  return names<RunState>({{RunState::queued, "queued"},
                          {RunState::starting, "starting"},
                          {RunState::running, "running"},
                          {RunState::succeeded, "succeeded"},
                          {RunState::failed, "failed"},
                          {RunState::timed_out, "timed_out"},
                          {RunState::cancelled, "cancelled"}});
}
std::string_view text(RunState state);
bool is_final(RunState state);

// The reaction to a killed rank. restart: the attempt ends, and another one continues from the
// last checkpoint. The others need a program that can recover from a killed rank. shrink: the
// remaining ranks continue. wait: they wait until the agent has restarted the rank.
enum class OnFailure { restart, shrink, wait };
constexpr auto enum_names(OnFailure) {
  return names<OnFailure>(
      {{OnFailure::restart, "restart"}, {OnFailure::shrink, "shrink"}, {OnFailure::wait, "wait"}});
}

// Far above the size of any cluster, and small enough that no product of them overflows.
inline constexpr int kNodesMax = 100'000;
inline constexpr int kDevicesMax = 1'024;
inline constexpr int kRetriesMax = 1'000;
inline constexpr int kProcessesMax = 4'000'000;   // Linux has no more
inline constexpr int kProcessesDefault = 32'768;  // of a node, if its run states no number
inline constexpr int kPriorityMax = 100;

// The variable that makes programs which name another c10d backend use "lockstep": the names of the
// replaced ones.
inline constexpr std::string_view kReplaceBackend = "LOCKSTEP_REPLACE_BACKEND";

struct RunSpec {
  std::string project = "default";
  std::string name;
  std::vector<std::string> command;
  int nodes = 1;
  int devices = 1;    // on each node; one rank a device
  int remainder = 0;  // on one more node, the last; fewer than `devices`, 0: there is none
  std::optional<Duration> timeout{};    // none: the daemon's for the class; time_limit() has it
  std::optional<std::string> signal{};  // before it, see LimitSignal
  int retries = 0;                      // after the user's own non-zero exit
  int rank_loss_retries = 3;            // after a lost rank or node, or a hung rank
  Duration hang_after = std::chrono::minutes(30);  // without progress of a rank; zero: never
  std::optional<Duration> grace_period;            // from SIGTERM to SIGKILL; none: the daemon's
  std::optional<Duration> lease;  // of its agents, see Attempt; none: the daemon's; zero: never
  OnFailure on_failure = OnFailure::restart;
  std::map<std::string, std::string> env;
  // Variables of the ranks, and the secret of the project whose value each has.
  std::optional<std::map<std::string, std::string>> secrets{};
  // At most one of the four; software_environment() has it as one value.
  std::optional<std::string> venv;
  std::optional<std::string> conda;
  std::optional<std::vector<std::string>> module;
  std::optional<std::string> image;
  std::optional<ImageRuntime> runtime;             // of the image
  std::optional<std::vector<std::string>> mounts;  // of the image
  std::string working_folder;
  std::optional<std::string> upload;  // the id of an uploaded folder, in which the ranks start
  std::string checkpoint_folder;      // empty: one below the daemon's folder
  RunClass run_class = RunClass::normal;
  int priority = 0;                     // among the runs of its project: a higher one starts first
  std::vector<std::string> after;       // runs that must succeed before it starts
  std::optional<Time> not_before;       // earliest start time
  Needs needs;                          // of each node, besides devices
  std::optional<int> processes;         // of each node, with threads; none: kProcessesDefault
  bool stays = false;                   // never moved or paused, even if it writes checkpoints
  std::optional<SlurmRequest> slurm{};  // of its job; another engine ignores it
  std::optional<PodRequest> kubernetes{};  // of its Pods; another engine ignores it

  bool operator==(const RunSpec&) const = default;

  static constexpr auto program_fields() {
    return record<RunSpec>(
        field("project", &RunSpec::project, "the project that the run belongs to"),
        field("name", &RunSpec::name, "what people call the run; empty: the program's name"),
        required(field("command", &RunSpec::command, "program and arguments, one word each")),
        between(1, kNodesMax, field("nodes", &RunSpec::nodes, "hosts to run on")),
        between(1, kDevicesMax,
                field("devices", &RunSpec::devices, "devices on each node; one rank each")),
        field("remainder", &RunSpec::remainder,
              "devices on one more node, fewer than on the others; 0: no such node"),
        field("timeout", &RunSpec::timeout,
              "running time after which the run is stopped; absent: the daemon's for its class"),
        field("signal", &RunSpec::signal,
              "signal to the ranks before the time-out, such as USR1@5m; absent: none"),
        between(0, kRetriesMax,
                field("retries", &RunSpec::retries, "attempts after the program's own bad exit")),
        between(0, kRetriesMax,
                field("rank_loss_retries", &RunSpec::rank_loss_retries,
                      "attempts in a row after a loss or a hang, without a newer checkpoint")),
        field("hang_after", &RunSpec::hang_after,
              "time without reported progress after which a rank counts as hung; 0s: never"),
        field("grace_period", &RunSpec::grace_period,
              "time from SIGTERM to SIGKILL, to save; absent: chosen by the daemon"),
        field("lease", &RunSpec::lease,
              "time without the daemon, until its ranks end; absent: the daemon's; 0s: never"),
        field("on_failure", &RunSpec::on_failure,
              "when a rank is killed: restart from the last checkpoint; or, of a program that can, "
              "shrink to the ranks that are left, or wait for the rank to be started again"),
        field("env", &RunSpec::env, "environment variables of the ranks"),
        field("secrets", &RunSpec::secrets, "variables of the ranks, by secrets of the project"));
  }
  static constexpr auto place_fields() {
    return record<RunSpec>(
        field("venv", &RunSpec::venv, "folder of a Python venv in which the ranks run"),
        field("conda", &RunSpec::conda,
              "name or folder of a conda environment in which the ranks run"),
        field("module", &RunSpec::module, "modules that are loaded for the ranks"),
        field("image", &RunSpec::image,
              "image of the ranks: a name that the hosts' Podman has, or a file for Apptainer"),
        field("runtime", &RunSpec::runtime,
              "what starts the image; absent: apptainer for a file, else podman"),
        field("mounts", &RunSpec::mounts,
              "more folders of the host that the ranks in the image have, at the same paths"),
        field("working_folder", &RunSpec::working_folder, "folder in which the ranks start"),
        field("upload", &RunSpec::upload,
              "id of a folder that was sent to the daemon: each node starts in a copy (--upload)"),
        field("checkpoint_folder", &RunSpec::checkpoint_folder,
              "folder for checkpoints, the same on every node; empty: chosen by the daemon"),
        field("class", &RunSpec::run_class,
              "debug: at most 1h on one node, starts soon; preemptible: gives its devices back "
              "when another run asks for them"),
        between(-kPriorityMax, kPriorityMax,
                field("priority", &RunSpec::priority,
                      "from -100 to 100; a higher one starts first in its project")),
        field("after", &RunSpec::after, "runs that must succeed before it starts"),
        field("not_before", &RunSpec::not_before,
              "earliest start, such as 2026-11-22T12:00:00Z; as an option also 2h, from now"),
        field("needs", &RunSpec::needs,
              "what each node asks of its host: cores, memory, kind, device_memory and labels"),
        field("processes", &RunSpec::processes,
              "processes and threads of each node, at most; absent: 32768"),
        field("stays", &RunSpec::stays,
              "is neither moved nor paused for others, though it writes checkpoints"),
        field("slurm", &RunSpec::slurm, "what its job asks of Slurm, such as an account"),
        field("kubernetes", &RunSpec::kubernetes,
              "what its Pods ask of Kubernetes: volumes, tolerations, a service account and more"));
  }
  static constexpr auto fields() { return joined(program_fields(), place_fields()); }
};

// A run is moved at most this often.
inline constexpr int kMovesMax = 3;
// The longest time limit of the class.
Duration timeout_max(RunClass run_class);
// The time limit of a run of the class that names none, by the daemon's settings.
Duration timeout_default(RunClass run_class, const Settings& settings);

// Checks the spec alone, without the cluster: names, counts, an empty command.
Result<void> check(const RunSpec& spec);

// None: the ranks run with the software of their host.
std::optional<SoftwareEnvironment> software_environment(const RunSpec& spec);

// The sections of the spec that only another engine than this one uses.
// The needs of the run with the tolerations of its section `kubernetes`.
Needs placement_needs(const RunSpec& spec);
std::vector<std::string> ignored_sections(const RunSpec& spec, std::string_view engine);

// The counts include the node of the remainder.
int node_count(const RunSpec& spec);
int rank_count(const RunSpec& spec);
int devices_on_node(const RunSpec& spec, int index);

// Where the program came from, as far as the client that submits it knows.
struct Origin {
  std::string user;
  std::string git_commit;  // empty: not in a git checkout
  bool git_dirty = false;
  std::optional<std::string> forked_from{};  // the run whose spec it began with

  bool operator==(const Origin&) const = default;

  static constexpr auto fields() {
    return record<Origin>(
        field("user", &Origin::user,
              "the user who submitted the run, as its token proves; ignored in requests"),
        field("git_commit", &Origin::git_commit, "commit of the working folder"),
        field("git_dirty", &Origin::git_dirty, "it had uncommitted changes"),
        field("forked_from", &Origin::forked_from,
              "the run that it was forked from, as the daemon knows; ignored in requests"));
  }
};

// personal: of one person, whose name it has. Its runs may use a personal bucket.
enum class ProjectKind { shared, personal };
constexpr auto enum_names(ProjectKind) {
  return names<ProjectKind>({{ProjectKind::shared, "shared"}, {ProjectKind::personal, "personal"}});
}

struct Run {
  RunId id;
  std::string generation;  // generation of the store when it was submitted; part of its folder name
  RunSpec spec;
  Origin origin;
  RunState state = RunState::queued;
  std::string reason;        // why it waits, or why it ended; one line
  std::int64_t version = 0;  // counts every change of the run, its attempts and its nodes
  std::int64_t epoch = 0;    // of its newest attempt; 0 before the first
  Time submitted{};
  Time queued{};                // since when it is in the queue: submitted or resumed
  std::optional<Time> started;  // the first time that all its ranks ran
  std::optional<Time> ended;
  Duration time_used{};          // running time of ended attempts, counts against time_limit()
  Duration extended{};           // by users, beyond spec.timeout
  budget::DeviceTime charged{};  // for what its attempts have settled
  int user_exits = 0;            // counts against spec.retries
  int losses = 0;  // since its newest checkpoint, counts against spec.rank_loss_retries
  int moves = 0;   // to other devices, at most kMovesMax
  bool stop_requested = false;
  std::optional<Time> not_before;  // earliest start: back-off, or spec.not_before; a tick clears it
  std::string request_id;          // request id of the submission; empty: none
  int fair_share_used = 100;       // of its project at submission, in percent: fair_share.h
  int priority = 0;                // that of the spec until a user sets another
  std::optional<std::string> held;   // why it is held, maybe empty; none: not held
  bool awaits_dependencies = false;  // not all of spec.after have succeeded, as of the last tick
  std::optional<budget::DeviceTime> awaits_budget{};  // more than its project has, as of that tick
  std::vector<AuditEntry> audit;                      // changes by users and Lockstep, oldest first
  // The launcher that has started the ranks of an external run, for people, and the name of its
  // job, by which the agents of all hosts find the run. Empty: Lockstep starts it.
  std::string launcher{};
  std::string job{};
  ProjectKind project_kind = ProjectKind::shared;  // personal: it uses the bucket of its project
  Tags tags{};
  std::string note{};

  bool operator==(const Run&) const = default;
};

// The running time after which the run is stopped.
Duration time_limit(const Run& run);
// The rest of it after the attempts so far.
inline Duration time_left(const Run& run) { return time_limit(run) - run.time_used; }

// True if it waits for a time, for other runs or for its budget.
bool has_condition(const Run& run);
// Its ranks were started by another launcher: it is neither placed nor started nor stopped.
inline bool is_external(const Run& run) { return !run.job.empty(); }

// True if it waits for devices only, so that the scheduler decides about it.
bool waits_for_devices(const Run& run);

}  // namespace lockstep::model
