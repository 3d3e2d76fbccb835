// PlacingEngine: the daemon's side of a SharedCluster. As the real engine of Slurm it calls the
// cluster's controller, and never knows whether a call without an answer had its effect. It submits
// an attempt only after a list that has no job of it, and cancels the younger of two.
//
// Its memory dies with its daemon; calls that are under way have their effect all the same.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "platform/engine/engine.h"
#include "sim/faults/crash_points.h"
#include "sim/world/engine_faults.h"
#include "sim/world/shared_cluster.h"

namespace lockstep::sim {

// Chances in percent, independent for each call of the cluster's controller.
struct ClusterCallFaults {
  int lost_percent = 0;         // it has no effect, and no answer comes
  int answer_lost_percent = 0;  // it has its effect
  int late_percent = 0;         // it has its effect when the daemon has given it up
  int doubled_percent = 0;      // it has its effect twice

  bool any() const {
    return lost_percent + answer_lost_percent + late_percent + doubled_percent > 0;
  }
};

class PlacingEngine : public engine::Engine {
 public:
  struct PlacingComponents {
    SimContext& context;
    CrashPoints& crash_points;
    SharedCluster& cluster;
    GroundTruth& truth;
    const EngineFaults& faults;  // of lists, and the time of calls
  };

  PlacingEngine(const PlacingComponents& components, std::uint64_t seed)
      : components_(components), random_(seed, "placing engine") {}

  std::string_view name() const override { return "shared"; }
  void submit(engine::Gang gang) override;
  void kill(const model::NodeName& node) override;
  Result<engine::EngineList> list() override;

  void set_call_faults(ClusterCallFaults faults) { call_faults_ = faults; }
  // Its list is young, and no fault hinders a call.
  bool is_well() const;

 private:
  // A gang that no list shows yet, as in SlurmEngine.
  struct Submission {
    enum class State { queued, called, submitted, failed } state = State::queued;
    std::shared_ptr<const engine::Gang> gang;
    std::int64_t list = 0;  // a list that begins later shows whether there is a job
    Duration retry{};       // not before, on the timeline
    Duration pause{};
    bool had_agents = false;
    std::string reason{};
    SharedCluster::JobId job = 0;
    std::set<int> killed{};
    Duration failed{};  // on the timeline
  };
  struct Jobs {
    std::int64_t number = 0;  // 0: none yet
    Duration begun{};
    std::vector<SharedCluster::ListedJob> jobs{};  // the first one of each attempt
    std::map<std::string, std::string> unfit{};
  };
  // At the controller; the result gives the answer to the daemon.
  using Act = std::function<std::function<void()>()>;

  void begin_life();
  void if_alive(Duration delay, std::function<void()> act);
  void call(Act act, std::function<void()> fail);
  void take_call(const Act& act, Duration until_timeout, bool is_late, std::function<void()> fail);
  void refresh();
  void publish(Jobs jobs);
  void plan_refresh();
  Duration interval() const;
  bool has_job(const model::AttemptName& attempt) const;
  void cancel_duplicate(SharedCluster::JobId job);
  void keep_nodes(const model::AttemptName& attempt);
  void submit_due();
  void submit_job(const std::shared_ptr<const engine::Gang>& gang);
  void record_submission(const model::AttemptName& attempt,
                         const Result<SharedCluster::JobId>& job);
  void drop_submissions();
  void execute_kills();
  bool execute_kill(const model::NodeName& node);
  bool has_no_job(const Submission& submission) const;
  void add_submission(const Submission& submission, std::vector<engine::ListedNode>& nodes) const;

  const PlacingComponents components_;
  SeededRandom random_;
  ClusterCallFaults call_faults_;

  // These belong to the present daemon:
  int life_ = -1;
  bool has_problem_ = false;  // the last list failed
  std::int64_t lists_begun_ = 0;
  Jobs jobs_;
  std::map<model::AttemptName, Submission> submissions_;
  std::set<model::NodeName> kills_;
};

}  // namespace lockstep::sim
