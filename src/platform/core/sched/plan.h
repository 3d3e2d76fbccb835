// Input and output of the scheduler for runs. Times are those of the caller: the scheduler has no
// clock.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "map/map.h"
#include "platform/core/model/host_devices.h"
#include "platform/core/model/host_state.h"
#include "platform/core/model/ids.h"
#include "platform/core/model/needs.h"
#include "platform/core/model/run_class.h"

namespace lockstep::sched {

// A run that waits. It needs `nodes` distinct hosts with `devices` free devices each. If
// `remainder` is not 0, it needs one more host with that many, fewer than `devices`. All of them
// must be in one pod, unless no pod is large enough even when empty. (20 devices where hosts have
// 8: 2 nodes x 8 and a remainder of 4.)
struct PendingRun {
  model::RunId run;
  int nodes = 1;
  int devices = 1;
  int remainder = 0;
  Time arrived{};  // since when it is in the queue
  Duration
      time_limit{};  // the longest time that it may run once started: the rest of its time limit
  Duration time_used{};  // the used part of its time limit: a lost run keeps its place
  // It is behind runs of its project with a higher priority. Other runs keep their place.
  int priority = 0;
  int moves_left = 0;  // how often it may be moved while it runs; 0 also if it has no checkpoints
  // It continues from its checkpoints: it may be paused once it has written one in this attempt.
  bool may_pause = false;
  model::RunClass run_class = model::RunClass::normal;
  std::string user{};  // its devices count towards this user's limit
  // How far its project was beyond its fair share when the run was submitted, in percent
  // (fair_share.h). Its time limit counts in its key with this factor.
  int fair_share_used = 100;
  model::Needs needs{};  // of each node
  bool operator==(const PendingRun&) const = default;
};

// Devices that are not free, and the run that holds them. Devices of hosts that the map lacks are
// ignored. Those without a host, or on one of EngineHosts, are chosen by the engine: they hold no
// capacity, and count towards limits.
struct Allocation {
  model::RunId run;
  std::vector<model::HostDevices> devices;
  Time expected_end{};  // by its time limit; a time in the past means that it may end at any moment
  int moves_left = 0;   // as in PendingRun
  Time started{};       // of this attempt
  model::RunClass run_class = model::RunClass::normal;
  std::string user{};
  model::Needs needs{};
  bool may_pause = false;
  // As in PendingRun: its place in the queue if it had to wait, and its whole time limit.
  Time arrived{};
  Duration timeout{};
  int fair_share_used = 100;
  int priority = 0;
  bool leaving = false;  // it was told to leave: its devices will be free soon
  // When it wrote its newest checkpoint in this attempt, if known. Otherwise it is assumed to write
  // one every SchedulingPolicy::checkpoint_interval since its start.
  std::optional<Time> last_checkpoint{};
  // For a run that is being moved: its destination. These devices are reserved for it from
  // expected_end on, for time_limit, the rest of its time limit.
  std::vector<model::HostDevices> move_destination{};
  Duration time_limit{};
  bool operator==(const Allocation&) const = default;
};

struct Placement {
  model::RunId run;
  // One entry a node in the map's order, the remainder's last. An engine that chooses hosts gets
  // as many devices without a host.
  std::vector<model::HostDevices> devices;
  bool operator==(const Placement&) const = default;
};

// Devices at once, by the name of a project, and of a user over all projects. A name without an
// entry has no limit.
struct Limits {
  std::map<std::string, int> project_devices;
  std::map<std::string, int> user_devices;
  bool operator==(const Limits&) const = default;
};

// Can the map get more hosts? Then a run that it cannot hold waits for them.
enum class MapGrowth { none, hosts_join };

// Hosts among which an engine chooses, such as those of a partition of Slurm that other jobs use
// too. A run that cannot start at once on the hosts of the map starts there, without hosts, if
// these hosts could hold it when they are empty.
struct EngineHosts {
  map::ClusterMap map;  // without the hosts on which the scheduler places runs
  int runs_max = 0;     // that the engine has at once, whether it lets them wait or runs them
};

struct HostStatus {
  std::string host;
  model::HostState state = model::HostState::open;
  std::string reason{};  // one clause for users: "it lost demo/1 and demo/7"
};

// Settings by the operators of a cluster.
struct OperatorSettings {
  std::vector<HostStatus> hosts{};  // those that are not open
  Limits limits{};
};

// A run that holds devices moves to other ones. Moves come before the plan's placements, which may
// use the devices of moved runs. If the policy does not preempt at once, the run holds both until
// remove_allocation().
struct Move {
  model::RunId run;
  std::vector<model::HostDevices> devices;  // where it goes
  bool operator==(const Move&) const = default;
};

// One line for users. Thousands of runs that wait behind the same run have the same reason: they
// share the line, which is immutable.
class WaitingReason {
 public:
  WaitingReason() = default;
  explicit WaitingReason(std::string line)
      : line_(std::make_shared<const std::string>(std::move(line))) {}
  std::string_view line() const { return line_ ? std::string_view(*line_) : std::string_view(); }
  operator std::string_view() const { return line(); }
  operator std::string() const { return std::string(line()); }
  bool empty() const { return line().empty(); }
  friend bool operator==(const WaitingReason& a, const WaitingReason& b) {
    return a.line_ == b.line_ || a.line() == b.line();
  }
  friend bool operator==(const WaitingReason& a, std::string_view b) { return a.line() == b; }

 private:
  std::shared_ptr<const std::string> line_;
};

// Why a run waits, as of the last pass.
struct WaitingRun {
  model::RunId run;
  // The run that must end or start first; none: with the current map and limits it never starts.
  std::optional<model::RunId> blocker;
  WaitingReason reason;
  // For a head, and for a run that exceeds a limit: its start if all runs use their whole time
  // limits. None: it is behind a head, or it cannot start at present.
  std::optional<Time> expected_start = {};
  bool reserved = false;     // a head: no run behind it delays its expected start
  bool behind_head = false;  // it waits behind the blocker in the queue, which its reason names
  bool operator==(const WaitingRun&) const = default;
};

// When a waiting run starts.
struct StartTimes {
  std::optional<Time> expected;  // an estimate; none: it never starts at present
  std::optional<Time> latest;    // a bound (latest_start.h); none: no bound can be given
  bool operator==(const StartTimes&) const = default;
};

struct Plan {
  // Runs that give up their devices for a run ahead of them. They return to the queue at their old
  // place: the caller adds them again.
  std::vector<model::RunId> evictions;
  std::vector<Move> moves;                             // in the order in which they are carried out
  std::map<model::RunId, model::RunId> preempted_for;  // by preempted run; no entry: a drained host
  std::vector<Placement> placements;                   // in queue order, then backfilled ones
  std::vector<WaitingRun> waiting;                     // in queue order; only from schedule_once()
};

}  // namespace lockstep::sched
