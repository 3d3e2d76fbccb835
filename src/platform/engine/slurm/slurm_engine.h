// SlurmEngine: the agents of an attempt are the steps of one batch job (docs/design/slurm.md).
//
// One thread calls Slurm's programs. The daemon's thread reads the last list, and leaves requests.
// All files are in a folder that every host shares.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "platform/engine/engine.h"
#include "platform/engine/local/node_worker.h"
#include "platform/engine/slurm/job_script.h"
#include "platform/engine/slurm/slurm_commands.h"
#include "platform/engine/slurm/slurm_map.h"
#include "platform/engine/slurm/slurm_nodes.h"

namespace lockstep::engine {

class SlurmEngine : public Engine {
 public:
  struct Setup {
    std::shared_ptr<SlurmCommands> slurm;  // shared with the discovery of the map
    const Clock& clock;                    // outlives the engine
    SlurmJobOptions options;
    HostsChosenBy chosen_by = HostsChosenBy::lockstep;
    // For a daemon of root: the account of a job; none: each job is the daemon's own.
    AccountOf account_of{};
    std::filesystem::path home;  // with the folders of the nodes; every host shares it
    Duration first_interval = std::chrono::milliseconds(500);  // after a submission
    Duration busy_interval = std::chrono::seconds(2);  // between two lists while nodes start or end
    Duration calm_interval = std::chrono::seconds(5);
    Duration end_interval = std::chrono::milliseconds(500);  // to look whether a node has ended
    Duration hosts_interval = std::chrono::seconds(30);      // between two lists of the hosts
    Duration list_age_max = std::chrono::seconds(30);
  };
  explicit SlurmEngine(Setup setup);
  // Queued attempts are not submitted. Waits for the call of Slurm that is under way.
  ~SlurmEngine() override;
  SlurmEngine(const SlurmEngine&) = delete;  // the thread refers to it
  SlurmEngine& operator=(const SlurmEngine&) = delete;

  std::string_view name() const override { return model::kSlurmEngine; }
  void submit(Gang gang) override LS_EXCLUDES(mutex_);
  void kill(const model::NodeName& node) override LS_EXCLUDES(mutex_);
  Result<EngineList> list() override LS_EXCLUDES(mutex_);

 private:
  // A gang that no list of Slurm shows yet.
  struct Submission {
    enum class State { queued, submitted, failed } state = State::queued;
    std::shared_ptr<const Gang> gang;
    std::int64_t list = 0;  // queued: a list that begins later must not have it before it is
                            // submitted. submitted: a list that begins later shows it
    Deadline retry = Deadline::after(Duration(0));
    Duration pause{};
    bool had_agents = false;  // queued: an agent ran, of a job that no list has shown yet
    std::string reason{};     // queued: why it waits; failed: why
    model::EndBlame blame = model::EndBlame::unknown;  // failed
    std::int64_t job = 0;                              // submitted
    std::set<int> killed{};
    Deadline forgotten = Deadline::after(Duration(0));  // failed: listed until then
  };
  struct Jobs {
    std::int64_t number = 0;  // 0: none yet
    std::chrono::steady_clock::time_point begun{};
    std::vector<ListedNode> nodes;
    std::set<model::AttemptName> attempts;
    std::map<model::NodeName, std::vector<std::string>> kills;  // the call that ends the node
  };
  using OwnJobs = std::map<model::AttemptName, SlurmJob>;
  using Steps = std::map<std::pair<std::int64_t, std::string>, SlurmStep>;

  // In the thread:
  void work() LS_EXCLUDES(mutex_);
  bool wait_for_work() LS_EXCLUDES(mutex_);
  void remove_old_programs() LS_EXCLUDES(mutex_);
  void refresh() LS_EXCLUDES(mutex_);
  Result<Jobs> read_jobs() LS_EXCLUDES(mutex_);
  Result<OwnJobs> read_own_jobs();
  void read_files(const OwnJobs& jobs);
  Result<Steps> read_steps(const OwnJobs& jobs);
  Result<void> read_hosts() LS_EXCLUDES(mutex_);
  void read_new_switches(const std::vector<SlurmHost>& hosts);
  void add_node(const model::NodeName& node, const SlurmJob& job, const SlurmStep* step,
                Jobs& jobs) const;
  SlurmNodeFiles files_of(const model::NodeName& node, const SlurmJob& job);
  void cancel_duplicate(const SlurmJob& job);
  void publish(Result<Jobs> jobs) LS_EXCLUDES(mutex_);
  void execute_kills() LS_EXCLUDES(mutex_);
  void submit_next() LS_EXCLUDES(mutex_);
  Result<std::int64_t> submit_job(const Gang& gang);
  Result<std::optional<Account>> account_of_job(const Gang& gang) const;
  Result<void> give_files(const Account& account, const Gang& gang, const SlurmJobRequest& job);
  std::vector<std::string> squeue(std::vector<std::string> options, std::string_view form) const;
  void record_submission(const model::AttemptName& attempt, const Result<std::int64_t>& job)
      LS_EXCLUDES(mutex_);

  Duration interval() const LS_REQUIRES(mutex_);
  bool is_busy() const LS_REQUIRES(mutex_);
  void add_submission(const Submission& submission, std::vector<ListedNode>& nodes) const
      LS_REQUIRES(mutex_);
  bool has_no_job(const Submission& submission) const LS_REQUIRES(mutex_);
  std::shared_ptr<const Gang> due_gang() LS_REQUIRES(mutex_);

  const Setup setup_;

  // Only the thread uses these:
  std::vector<SlurmHost> hosts_;
  std::vector<SlurmSwitch> switches_;                    // as of the last new host
  std::set<std::string> known_hosts_;                    // all that were ever listed
  Deadline next_hosts_ = Deadline::after(Duration(0));   // when they are listed again
  Deadline young_hosts_ = Deadline::after(Duration(0));  // not before this, even if one failed
  std::map<model::NodeName, std::shared_ptr<const LaunchRecord>> records_;
  std::map<model::NodeName, SlurmNodeFiles> files_;
  std::map<model::NodeName, std::string> step_outputs_;  // the ends of those of ended steps
  // That the first node of each running job will write at its end, and of each pending one at its
  // start.
  std::vector<std::filesystem::path> awaited_;
  bool old_programs_ = true;        // they may be there
  std::set<model::NodeName> lost_;  // of the last list: they had an agent, and have no step

  Mutex mutex_;  // guards what follows
  Condition changed_;
  bool ending_ LS_GUARDED_BY(mutex_) = false;
  std::map<model::AttemptName, Submission> submissions_ LS_GUARDED_BY(mutex_);
  std::set<model::NodeName> kills_ LS_GUARDED_BY(mutex_);
  std::int64_t lists_begun_ LS_GUARDED_BY(mutex_) = 0;
  Jobs jobs_ LS_GUARDED_BY(mutex_);
  std::map<std::string, std::string> unfit_ LS_GUARDED_BY(mutex_);
  std::shared_ptr<const map::ClusterMap> map_ LS_GUARDED_BY(mutex_);
  Time answered_ LS_GUARDED_BY(mutex_);        // when Slurm last answered, or the start
  std::string problem_ LS_GUARDED_BY(mutex_);  // of the last list; empty: none

  std::thread thread_;  // the last member: it uses the others
};

}  // namespace lockstep::engine
