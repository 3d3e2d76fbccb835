// SharedCluster: the resource manager of a cluster that other users share, such as Slurm. It has a
// queue of its own, chooses the hosts of each job, and knows nothing of the daemon, whose restarts
// it outlives. It starts agents on the simulated hosts.
//
// Jobs start in the order of their submission; a job that fits passes one that does not, until that
// one has waited for long. A job holds its devices until the processes of all its nodes have ended.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "map/map.h"
#include "platform/engine/engine.h"
#include "sim/world/engine_faults.h"
#include "sim/world/hosts.h"

namespace lockstep::sim {

// Why a node that had an agent does not start again.
inline constexpr std::string_view kHasStarted = "its agents were started before, and have ended";

class SharedCluster {
 public:
  using JobId = std::int64_t;

  struct ClusterComponents {
    SimContext& context;
    Hosts& hosts;
    GroundTruth& truth;
    const EngineFaults& faults;  // of starts
  };

  enum class JobState { pending, running, over };
  struct JobNode {
    std::string host{};          // empty: not chosen yet
    std::vector<int> devices{};  // their numbers on the host
    bool started = false;        // its agent was started, or cannot be
    bool ended = false;
    std::string reason{};  // of the end; empty: none is known
    model::EndBlame blame = model::EndBlame::unknown;
  };
  struct Job {
    JobId id = 0;
    std::shared_ptr<const engine::Gang> gang{};  // null: another user's
    std::vector<int> sizes{};                    // devices of each node
    Duration time_limit{};
    Duration lifetime{};  // of another user's
    JobState state = JobState::pending;
    // On the timeline:
    Duration submitted{};
    Duration started{};
    Duration ended{};
    std::optional<Duration> cancelled{};  // when the first request to end it came
    std::string pending_reason{};
    Duration reason_since{};
    std::vector<JobNode> nodes{};
  };

  // A job of this daemon, as the controller tells it.
  struct ListedJob {
    JobId id = 0;
    model::AttemptName attempt{};
    JobState state{};
    std::vector<engine::ListedNode> nodes{};
  };

  SharedCluster(const map::ClusterMap& map, const ClusterComponents& components,
                std::uint64_t seed);

  // Others submit jobs from now on.
  void begin();
  // They submit none any more, and those of them that wait are gone.
  void come_to_rest();
  // Jobs of others that take most of the cluster.
  void submit_burst();

  // --- Calls, at the moment at which the controller takes them ---
  Result<JobId> submit(std::shared_ptr<const engine::Gang> gang);
  void cancel_job(JobId id);
  void cancel_node(JobId id, int index);
  std::vector<ListedJob> list() const;
  // The hosts that it gives to no job, and why.
  std::map<std::string, std::string> unfit_hosts() const;

  // --- Faults ---
  // It takes no calls and starts no job.
  void set_away(bool away) { away_ = away; }
  bool is_away() const { return away_; }
  // An administrator ends a job; or it gives way to another.
  void end_job(JobId id, const std::string& reason, model::EndBlame blame);
  // Called once, after the next job of the daemon was submitted.
  void on_next_submission(std::function<void()> act) { on_submission_ = std::move(act); }

  // --- The truth, for checks ---
  const std::map<JobId, Job>& jobs() const { return jobs_; }
  // The host on which the node was started, or is about to be; empty: none was chosen.
  std::string host_of(const model::NodeName& node) const;
  // An agent of the node was ever started.
  bool has_started(const model::NodeName& node) const { return agents_.contains(node); }
  // It was ever told of the attempt.
  bool knows(const model::AttemptName& attempt) const { return attempts_.contains(attempt); }
  bool has_live_jobs() const;
  // The node that has ended; null: it tells nothing of it any more.
  const JobNode* ended_node(const model::NodeName& node) const;

 private:
  using Free = std::map<std::string, std::vector<int>>;  // devices, by host

  void tick();
  void observe(Job& job);
  void check_host_failure(Job& job);
  void end_node(Job& job, int index, const std::string& reason, model::EndBlame blame);
  void start_pending();
  Free free_devices() const;
  std::optional<std::vector<JobNode>> place(const Job& job, Free free) const;
  void start(Job& job, std::vector<JobNode> nodes);
  void start_node(JobId id, int index);
  bool is_locked(const Job& job, const model::NodeName& node) const;
  std::string reason_of(const Job& job, std::string_view word) const;
  model::Observation observation(const Job& job, int index) const;
  void submit_other();
  Job& add_job(std::vector<int> sizes);
  static model::NodeName node_of(const Job& job, int index);
  bool is_present(const Job& job, int index) const;
  void forget_old_jobs();
  void forget_hosts(const engine::Gang& gang);

  const ClusterComponents components_;
  SeededRandom random_;
  std::map<std::string, std::vector<int>> devices_;  // of each host
  bool away_ = false;
  bool at_rest_ = true;
  JobId last_id_ = 0;
  std::map<JobId, Job> jobs_;
  std::set<model::AttemptName> attempts_;
  std::map<model::NodeName, JobId> agents_;              // the job in which an agent was started
  std::map<model::NodeName, std::string> chosen_hosts_;  // of the first known job of each
  std::function<void()> on_submission_;
};

}  // namespace lockstep::sim
