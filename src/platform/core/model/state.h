// The controller's whole state, and the rows by which it changes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "map/map.h"
#include "platform/core/budget/bucket.h"
#include "platform/core/budget/charge.h"
#include "platform/core/budget/ledger.h"
#include "platform/core/model/attempt.h"
#include "platform/core/model/audit_record.h"
#include "platform/core/model/given_up_node.h"
#include "platform/core/model/notice.h"
#include "platform/core/model/operator_rows.h"
#include "platform/core/model/orphan.h"
#include "platform/core/model/run.h"
#include "platform/core/model/settings/settings.h"

namespace lockstep::model {

// The identity of this store. A restored older copy gets a new generation, so that nothing created
// from then on has the name of something that the copy does not know.
struct StoreRow {
  std::string generation;
  std::int64_t issued = 0;  // runs and attempts created under this generation

  bool operator==(const StoreRow&) const = default;
};

// The wall clock relative to a clock that cannot be set: the wall-clock time at which the steady
// clock of this boot was zero. It changes when the wall clock is set or the machine restarts.
struct ClockRow {
  std::string boot;  // empty: unknown
  Time zero{};

  bool operator==(const ClockRow&) const = default;
};
// By how much the clock was set between the two; zero for less than a second. Empty if unknown,
// because the machine was restarted.
std::optional<Duration> clock_shift(const std::optional<ClockRow>& before, const ClockRow& now);

// An operator's measurements of a cluster whose hosts join (lockstep probe).
struct MeasuredRow {
  map::Measured measured;

  bool operator==(const MeasuredRow&) const = default;
};

// A row as it is after the change; the store writes it, apply() puts it into a State. Postings,
// parts of the usage, records of the audit and notices are stored with the other rows, and are no
// part of the State.
using Change = std::variant<Run, Attempt, Node, HostRow, LimitRow, StoreRow, Orphan, ClockRow,
                            GivenUpNode, MeasuredRow, budget::Budget, budget::Rate, budget::Posting,
                            budget::UsagePart, AuditRecord, Notice, budget::Bucket>;

// Device time that runs of a project have used and may still use, in device-seconds.
struct Usage {
  std::int64_t outstanding = 0;  // by runs that are not final, by their time limits
  std::map<std::int64_t, std::int64_t>
      used_by_day;  // by runs that ended on that day, as days since 1970
};
// Adds the run's part, or removes it (sign -1).
void add_usage(Usage& usage, const Run& run, int sign = 1);
std::int64_t day_of(Time time);

// The engine of the daemon's own machine.
inline constexpr std::string_view kLocalEngine = "local";
// That of the attempts of external runs: no daemon has it.
inline constexpr std::string_view kExternalEngine = "external";

// Ordered containers throughout: decisions must not depend on hashing.
struct State {
  // `map`, `settings`, `engine`, `numbers`, `engine_has_listed`, `hosts_make_map` and
  // `placing_engine` are not rows.
  map::ClusterMap map;
  bool hosts_make_map = false;  // apply() makes the map from `hosts`; set before the first of them
  Settings settings;
  // The name of the one that starts attempts, on hosts whose pod names none.
  std::string engine{kLocalEngine};
  // The name of the one that chooses the hosts of its runs itself, among those of its pods; empty:
  // none.
  std::string placing_engine{};
  // By project, the highest number ever given to a run here, including stores that no longer exist.
  std::map<std::string, std::int64_t> numbers;
  bool engine_has_listed = true;  // false: no run starts until the engine has listed its nodes
  StoreRow store;
  std::map<RunId, Run> runs;  // all open ones, and some that have ended (ended_runs.h)
  std::map<AttemptId, Attempt> attempts;
  std::map<NodeId, Node> nodes;
  std::map<std::string, HostRow> hosts;  // those with a setting, and those that joined
  std::map<LimitId, LimitRow> limits;
  std::map<std::string, budget::Budget> budgets;  // by project
  std::map<std::string, budget::Rate> rates;      // by the kind of the device
  std::map<std::string, budget::Bucket> buckets;  // by personal project, once they were used
  std::map<NodeName, Orphan> orphans;             // only those with a stop request are stored
  std::map<NodeId, GivenUpNode> given_up;         // of attempts that have ended
  std::optional<ClockRow> clock;                  // none: no daemon has read it yet
  std::optional<MeasuredRow> measured;            // then the map has it
  // Updated by apply():
  std::set<RunId> open;                   // runs that are not final
  std::set<RunId> conditional;            // queued runs that wait for a time or for other runs
  std::set<AttemptId> live;               // attempts that have not ended
  std::map<std::string, RunId> requests;  // by the request ids of their submissions
  std::map<std::string, Usage> usage;     // by project
  std::set<std::pair<Time, std::string>> grant_ends;  // the next of each project with a budget
};

void apply(State& state, const Change& change);

// The newest attempt of the run unless it has ended; null when no attempt is live.
const Attempt* live_attempt(const State& state, const RunId& run);

// Names of an attempt and a node whose rows exist.
AttemptName name_of(const Attempt& attempt);
NodeName name_of(const State& state, const NodeId& node);
// True if the state has the node with this full name, generation included.
bool has_node(const State& state, const NodeName& node);

// The record that is written to the folders of the attempt's nodes.
AttemptRecord record_of(const State& state, const AttemptId& attempt);

// The name of the engine that starts agents on this host.
std::string engine_of(const State& state, std::string_view host);
// True if the daemon has this engine. `engine` is that of an attempt: one of an older daemon, or of
// another store, has none, and counts as one of this daemon.
bool has_engine(const State& state, std::string_view engine);

// Keeps only what a store saves of orphans: those with a stop request, and the time of that.
void drop_unstored_orphans(State& state);
// The orphans of this run, ordered by name; usually none.
std::vector<const Orphan*> orphans_of(const State& state, const RunId& run);

// The nodes of one attempt, in order of their index.
std::vector<const Node*> nodes_of(const State& state, const AttemptId& attempt);

}  // namespace lockstep::model
