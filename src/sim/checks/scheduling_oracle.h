// SchedulingOracle checks the promises of the queue (docs/design/scheduler.md): a run that starts
// is ahead of the waiting runs or delays none of them, and no operator's limit is exceeded. It
// counts free devices host by host, without the code of the scheduling pass. It checks decisions
// and plans nothing.
//
// The head is the first run that still waits, if the map can hold it and no limit blocks it. A run
// that starts behind the head must not delay the head. The head's start time is the first moment at
// which it fits if every run with an allocation uses its full time-out. Runs that start in one
// commit are checked one after another: there must be an order in which each run, at its turn, is
// ahead of the head or does not delay it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/checks/cluster_capacity.h"
#include "sim/world/commit.h"

namespace lockstep::sim {

// The devices that the orphans of one run hold, as the run of an attempt.
struct OrphanAllocation {
  model::Run run{};
  model::Attempt attempt{};
  std::vector<model::Node> nodes{};
};

// A run, and its allocation if an attempt of it lives.
struct RunEntry {
  const model::Run* run = nullptr;
  const model::Attempt* attempt = nullptr;  // of a run that starts: null until its turn
  std::vector<const model::Node*> nodes{};
  bool starts = false;  // in this commit
  bool moves = false;   // it starts where devices were reserved, without a place in the queue
};

// One entry for every open run, except a waiting run whose name an orphan still uses. Also the
// entries of orphans, and the settings of operators.
struct QueueSnapshot {
  std::vector<RunEntry> entries{};
  std::vector<std::shared_ptr<const OrphanAllocation>>
      orphans{};                                    // shared by copies, whose entries point there
  std::map<std::string, model::HostState> hosts{};  // those that are not open
  std::map<model::LimitId, int> limits{};
};

// The rows after the commit, which starts some runs.
QueueSnapshot queue_snapshot_of(const model::State& durable, const Commit& commit);

class SchedulingOracle {
 public:
  explicit SchedulingOracle(const map::ClusterMap& map) : capacity_(map) {}

  // The first violation among the runs that start; empty if there is none.
  std::optional<std::string> check_starts(const QueueSnapshot& snapshot) const;
  // Reports that the head starts later than before, whichever runs start. Accepted reasons are a
  // run that exceeds its time-out and a host that was closed or drained.
  std::optional<std::string> check_head_not_delayed(const QueueSnapshot& before,
                                                    const QueueSnapshot& after, Time now) const;
  // Call when no run starts any more: reports a waiting run that fits and would delay no other run.
  std::optional<std::string> check_no_run_idle(const QueueSnapshot& snapshot, Time now) const;

  // The runs that wait for devices, in queue order.
  std::vector<model::RunId> order(const QueueSnapshot& snapshot) const;
  struct Head {
    const model::Run* run = nullptr;
    // The moment at which it fits; Time{} if it fits now.
    Time start{};
  };
  std::optional<Head> head(const QueueSnapshot& snapshot) const;

 private:
  // The priority tier, the key, then the order among equal keys. The smaller key is ahead.
  using QueueKey = std::tuple<int, Time, int, int, Time, Time, model::RunId>;
  using QueueKeys = std::map<model::RunId, QueueKey>;
  using AllocatedEntries = std::vector<const RunEntry*>;
  // Devices, and when they become free.
  struct TimedAllocation {
    const RunEntry* entry = nullptr;
    Time end{};
    bool is_last = true;                                 // of the entry
    std::vector<std::pair<std::string, int>> devices{};  // by host
  };
  static std::vector<TimedAllocation> timed_allocations(const AllocatedEntries& allocated);

  std::set<model::RunId> debug_share_runs(const QueueSnapshot& snapshot) const;
  QueueKeys queue_keys(const QueueSnapshot& snapshot) const;
  const model::Run* first_waiting(const QueueSnapshot& snapshot, const QueueKeys& keys,
                                  std::optional<int> tier = {}) const;
  bool can_be_placed(const QueueSnapshot& snapshot, const model::RunSpec& spec) const;
  ClusterCapacity::FreeDevices free_devices(const QueueSnapshot& snapshot,
                                            const AllocatedEntries& allocated) const;
  void add_devices(const QueueSnapshot& snapshot, const TimedAllocation& allocation,
                   ClusterCapacity::FreeDevices& free, int sign) const;
  std::optional<Time> earliest_start(const QueueSnapshot& snapshot, const model::Run& run,
                                     AllocatedEntries allocated, Duration behind = {}) const;

  std::optional<std::string> check_placement(const QueueSnapshot& snapshot,
                                             const RunEntry& entry) const;
  // By the entries that are left: the violation that was found for them before.
  using FailedOrders = std::map<std::set<std::size_t>, std::string>;
  std::optional<std::string> check_start_order(const QueueSnapshot& snapshot) const;
  std::optional<std::string> check_start_order_from(QueueSnapshot& moment, const QueueSnapshot& end,
                                                    FailedOrders& failed_orders) const;
  std::optional<std::string> check_start(const QueueSnapshot& moment, const QueueKeys& keys,
                                         const RunEntry& entry) const;
  bool would_exhaust_limit(const QueueSnapshot& snapshot, const QueueKeys& keys,
                           const model::Run& run) const;
  Time latest_end_for(const QueueSnapshot& snapshot, const QueueKeys& keys,
                      const model::Run& run) const;

  const ClusterCapacity capacity_;
};

}  // namespace lockstep::sim
