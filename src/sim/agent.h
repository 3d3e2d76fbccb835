// Agent: one node's agent and its ranks, obeying the protocol of docs/design/agent.md as
// platform/agent does, over the simulated network. What is left out: logs and metrics, and the
// daemon's holding back of answers, for which a call in two seconds stands.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platform/core/model/command.h"
#include "platform/core/model/event.h"
#include "platform/engine/launch.h"
#include "sim/dice.h"
#include "sim/network.h"
#include "sim/training.h"
#include "sim/truth.h"

namespace lockstep::sim {

// Shared, because what is planned for an agent holds it weakly, and is void once it is gone.
class Agent : public std::enable_shared_from_this<Agent> {
 public:
  struct World {
    Scene& scene;
    Network& network;
    Training& training;
    Truth& truth;
  };
  using Left = std::function<void()>;

  // `left` is called when it has ended by itself.
  Agent(const World& world, ProcessId id, Launch launch, Left left);

  // Its first call comes after `delay`.
  void begin(Duration delay);
  // SIGKILL to the agent and with it to its ranks; nothing is heard of it any more.
  void die();
  // A signal from outside ends the rank.
  void kill_rank(int local_rank, int signal);
  // The connection from it to another rank of the attempt is cut. Both live.
  void cut_off_rank(int local_rank, int from);
  // SIGSTOP from outside: it lives, makes no step, and of all signals only SIGKILL ends it; and
  // SIGCONT, of which nothing comes unless it stands still.
  void stop_rank(int local_rank);
  void continue_rank(int local_rank);
  // The same to the agent itself: its ranks go on, and it sees and says nothing until it goes on.
  void stand_still();
  void go_on();
  bool stands_still() const { return stands_still_; }
  // From `start` on it takes so long until its ranks run. Meanwhile it calls and obeys nothing: a
  // program is loaded from a disk that does not answer.
  void start_late(Duration late) { late_ = late; }
  // What its ranks leave behind resists when the last has ended: `act` comes then.
  void resist_clearing(std::function<void()> act) { resist_ = std::move(act); }
  // `act` comes when it has looked at its ranks, and before it tells of it, once one stands still.
  void when_seen_stopped(std::function<void()> act) { seen_ = std::move(act); }

  ProcessId id() const { return id_; }
  const NodeId& node() const { return node_; }
  NodeName name() const { return {launch_.generation, node_}; }
  const std::string& host() const { return launch_.host; }
  const Program& program() const { return program_; }
  const Launch& launch() const { return launch_; }
  std::vector<int> running_ranks() const;  // local numbers
  // It ends ranks that have not ended by themselves.
  bool stops() const { return phase_ == Phase::stopping; }
  // Its ranks run, and it was not told yet that those of the other nodes do.
  bool awaits_other_nodes() const { return phase_ == Phase::running && !running_end_; }
  // Its ranks run, or what they left is not cleared away yet.
  bool has_children() const;

 private:
  enum class Phase { waiting, running, stopping, clearing, ended, gone };

  template <class Act>
  void later(Duration delay, Act act);
  void do_now(std::function<void(Agent&)> act);

  // Talking
  void tell();
  void call();
  void plan_call(Duration delay);
  void hear(const Result<Command>& answer);
  void hear_as_orphan(const Command& command);
  void obey(const Command& command);
  bool may_leave() const;
  void leave();
  NodeReport report() const;
  Time moment() const { return clock_.zero + world_.scene.timeline.now(); }

  // Watching its ranks
  void watch();
  void look();
  bool hangs() const;
  Duration patience() const;

  // Its ranks
  void begin_start();
  void start_ranks();
  void await_other_nodes();
  void count_running_time();
  void grant_running_time();
  void end_at(Duration moment);
  void begin_stop(StopReason reason, std::string message);
  void make_end();
  void signal_ranks(int signal, Duration delay);
  void end_rank(int local_rank, RankEnd how);
  void reaped();

  World world_;
  const ProcessId id_;
  const Launch launch_;
  const NodeId node_;
  const ClockRow clock_;  // of what it tells
  const Program program_;
  const Left left_;

  Phase phase_ = Phase::waiting;
  NodeState state_ = NodeState::ready;
  StopReason stop_reason_ = StopReason::none;
  std::string message_;
  std::vector<Rank> ranks_;
  std::map<int, std::optional<RankEnd>> standing_;  // local numbers, and how they end if they go on
  bool signalled_ = false;                          // what ends from here on ends by our doing
  bool ended_badly_ = false;                        // a rank, before that
  std::optional<Duration> running_end_;             // on the timeline, once all nodes' ranks run
  Duration time_out_{};                             // on the timeline; of the wait for them before
  std::int64_t time_outs_ = 0;                      // the newest that is planned; others are void
  bool stands_still_ = false;
  bool stood_still_ = false;  // ever
  Duration late_{};           // its ranks start
  bool starting_ = false;     // they do
  Duration started_{};        // on the timeline; they did
  std::function<void()> resist_;
  std::function<void()> seen_;
  std::vector<std::function<void(Agent&)>> missed_;  // what came meanwhile

  Command orders_;
  bool calling_ = false;
  int failures_ = 0;          // in a row
  Duration answered_{};       // on the timeline
  std::int64_t planned_ = 0;  // the newest call that is planned; older ones are void
  std::int64_t version_ = 1;  // of what there is to tell
  std::int64_t sent_ = 0;     // the version in the call under way
  std::int64_t known_ = 0;    // the last version that was answered
};

}  // namespace lockstep::sim
