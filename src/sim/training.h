// Training: what the ranks of each attempt compute together: steps, checkpoints on a disk that all
// hosts share, the misfortunes of their program, and what its peers make of a lost rank.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "platform/core/model/attempt.h"
#include "sim/dice.h"
#include "sim/program.h"
#include "sim/scene.h"
#include "sim/truth.h"

namespace lockstep::sim {

struct RankEnd {
  RankState state = RankState::exited;
  int code = 0;
  Fault fault = Fault::none;  // that it reports before
  int fault_rank = -1;
};

// What a rank has reported of its steps.
struct Progress {
  int step = -1;          // the last; -1: none yet
  Duration since_step{};  // how long ago that was
};

class Training {
 public:
  using EndRank = std::function<void(RankEnd)>;

  Training(Scene& scene, Truth& truth, std::uint64_t seed)
      : scene_(scene), truth_(truth), dice_(seed, "training") {}

  // A rank is there; `end` ends its process. When all are there, the steps begin.
  void join(const AttemptName& attempt, int rank, int world_size, const Program& program,
            EndRank end);
  // Its process is gone. `well`: with exit code 0.
  void leave(const AttemptName& attempt, int rank, bool well);
  // Its process stands still, or goes on: no step is completed without it.
  void hold(const AttemptName& attempt, int rank);
  void let_go(const AttemptName& attempt, int rank);
  // Of each of its ranks: they step together.
  Progress progress(const AttemptName& attempt) const;
  // The link between two of its ranks is cut: both live, and end because they lost each other.
  void cut(const AttemptName& attempt, int one, int other);
  // When they said last that a checkpoint is complete.
  std::optional<Time> saved(const AttemptName& attempt) const;
  std::optional<std::int64_t> saved_step(const AttemptName& attempt) const;

 private:
  struct Gang {
    Program program;
    int world_size = 1;
    int first_step = 0;         // from which the attempt went on
    int step = 0;               // all of which have been taken by `stepped`
    Duration stepped{};         // on the timeline
    std::optional<Time> saved;  // by the clock, a checkpoint was
    std::optional<std::int64_t> saved_step;
    int next = 0;           // the step that is planned, while they go on
    bool goes_on = false;   // more steps follow it, each in its time
    bool done = false;      // all steps are: whoever ends now is not missed
    bool broken = false;    // a rank is gone: no step is completed any more
    std::int64_t plan = 0;  // what was planned under an earlier one is void
    std::map<int, EndRank> ranks;
    std::set<int> held;        // these stand still
    std::optional<int> stuck;  // this one goes on for ever without a step
    std::map<int, int> cut;    // the connection from one rank to another is; by rank
  };

  void go_on(const AttemptName& id);
  static void stop_stepping(Gang& gang, Duration now);
  void arrive(const AttemptName& id, std::int64_t plan);
  void suffer(const AttemptName& id, Gang& gang);
  void finish(const AttemptName& id, Gang& gang);
  void lose_patience_later(const AttemptName& id, const Gang& gang);
  void give_up(const AttemptName& id, const Gang& gang);
  void end_later(const AttemptName& id, int rank, Duration delay, RankEnd how);
  static RankEnd echo_of(const Gang& gang, int rank);
  Gang* whole_gang(const AttemptName& id);

  Scene& scene_;
  Truth& truth_;
  Dice dice_;
  std::map<AttemptName, Gang> gangs_;
};

}  // namespace lockstep::sim
