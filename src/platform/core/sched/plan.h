// What the pass is told of runs, and what it answers. Times are those of the caller's world: the
// pass has no clock.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "platform/core/model/host_state.h"
#include "platform/core/model/ids.h"
#include "platform/core/model/needs.h"
#include "platform/core/model/run_class.h"
#include "platform/core/model/slice.h"

namespace lockstep {

// A run that waits. It needs `nodes` distinct hosts with `devices` free devices each and, if
// `remainder` is not 0, one more with that many, fewer than `devices`; all of them in one pod,
// unless no pod is large enough even when empty. (20 devices where hosts have 8: 2 nodes x 8 and a
// remainder of 4.)
struct Want {
  RunId run;
  int nodes = 1;
  int devices = 1;
  int remainder = 0;
  Time arrived{};    // since when it stands in the queue
  Duration limit{};  // the longest that it runs once it has started: what is left of its time-out
  Duration used{};   // the rest of it: a run that was lost stands again where it stood
  // Within its project: it stands behind those with a higher one. Nobody else stands elsewhere.
  int priority = 0;
  int moves_left = 0;  // how often it may be moved once it runs; 0 also where it has no checkpoints
  // It goes on from its checkpoints: it may be paused once it has written one where it is.
  bool may_pause = false;
  RunClass run_class = RunClass::normal;
  std::string user{};  // whose devices count to his limit
  // How far its project was beyond its fair share when the run came, in percent (share.h): so much
  // more, or less, its time-out counts in its key.
  int share = 100;
  Needs needs{};  // of each node
  bool operator==(const Want&) const = default;
};

// Devices that are not free, and whose they are. Those on hosts that the map does not have count
// for nothing.
struct Holding {
  RunId run;
  std::vector<Slice> slices;
  Time expected_end{};  // by its limit; one that is past means that it may end at any moment
  int moves_left = 0;   // as in Want
  Time started{};       // of this attempt
  RunClass run_class = RunClass::normal;
  std::string user{};
  Needs needs{};
  bool may_pause = false;
  // As in Want: where it would stand in the queue; its whole time-out.
  Time arrived{};
  Duration timeout{};
  int share = 100;
  int priority = 0;
  bool leaving = false;  // it was told to go: its devices will be free soon, whatever it has left
  // When it wrote its newest checkpoint where it is, if that is known. If not, it is taken to write
  // one each SchedulingPolicy::checkpoint_interval since its start.
  std::optional<Time> saved{};
  // One that leaves because it is moved: where it goes. These are kept for it from expected_end on
  // for `limit`, the rest of its time-out.
  std::vector<Slice> moving_to{};
  Duration limit{};
  bool operator==(const Holding&) const = default;
};

struct Placement {
  RunId run;
  std::vector<Slice> slices;  // one a node in the map's order, the remainder's last
  bool operator==(const Placement&) const = default;
};

// Devices at once, by the name of a project and of a user, over all his projects. Who is not named
// has no limit.
struct Limits {
  std::map<std::string, int> project_devices;
  std::map<std::string, int> user_devices;
  bool operator==(const Limits&) const = default;
};

struct HostStanding {
  std::string host;
  HostState state = HostState::open;
  std::string why{};  // one clause for people: "it lost demo/1 and demo/7"
};

// What the operators of a cluster have set.
struct Conditions {
  std::vector<HostStanding> hosts{};  // those that are not open
  Limits limits{};
};

// A run that holds devices goes to other ones. Moves come before the plan's placements, which may
// stand where moved runs were. If devices are not vacated at once, it holds both until release().
struct Move {
  RunId run;
  std::vector<Slice> slices;  // where it goes
  bool operator==(const Move&) const = default;
};

// One line for people. Thousands who wait behind the same run are told the same: they share the
// line, which nobody changes.
class Reason {
 public:
  Reason() = default;
  explicit Reason(std::string line) : line_(std::make_shared<const std::string>(std::move(line))) {}
  std::string_view line() const { return line_ ? std::string_view(*line_) : std::string_view(); }
  operator std::string_view() const { return line(); }
  operator std::string() const { return std::string(line()); }
  bool empty() const { return line().empty(); }
  friend bool operator==(const Reason& a, const Reason& b) {
    return a.line_ == b.line_ || a.line() == b.line();
  }
  friend bool operator==(const Reason& a, std::string_view b) { return a.line() == b; }

 private:
  std::shared_ptr<const std::string> line_;
};

// Why a run waits, by the pass that decided it.
struct WaitingRun {
  RunId run;
  // The run that must end or start first; none: as the map is now, or the limits, it never starts.
  std::optional<RunId> blocker;
  Reason reason;
  // Of a head, and of a run that a limit keeps: when it starts if all runs take their whole limits.
  // None: it stands behind a head, or it cannot start as things are.
  std::optional<Time> expected_start = {};
  bool operator==(const WaitingRun&) const = default;
};

// When a run that waits starts.
struct StartTimes {
  std::optional<Time> expected;  // an estimate; none: as things are, it never starts
  std::optional<Time> latest;    // a bound (latest_start.h); none: there is no honest one
  bool operator==(const StartTimes&) const = default;
};

struct Plan {
  // Who has to give its devices back to a run that cannot wait, and stands again where it stood:
  // its owner submits it again.
  std::vector<RunId> evictions;
  std::vector<Move> moves;                // in the order in which they are carried out
  std::map<RunId, RunId> makes_room_for;  // of those; who is not named leaves a drained host
  std::vector<Placement> placements;      // in the queue's order, then those that pass the head
  std::vector<WaitingRun> waiting;  // in the queue's order; only Scheduler::waiting() and pass()
};

}  // namespace lockstep
