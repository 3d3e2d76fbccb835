// Training: what the ranks of each attempt compute together: steps, checkpoints on a disk that all
// hosts share, the misfortunes of their program, and what its peers make of a lost rank.
#pragma once

#include <functional>
#include <map>

#include "platform/core/model/attempt.h"
#include "sim/dice.h"
#include "sim/program.h"
#include "sim/scene.h"
#include "sim/truth.h"

namespace lockstep::sim {

struct RankEnd {
  RankState state = RankState::exited;
  int code = 0;
};

class Training {
 public:
  using EndRank = std::function<void(RankEnd)>;

  Training(Scene& scene, Truth& truth, std::uint64_t seed)
      : scene_(scene), truth_(truth), dice_(seed, "training") {}

  // A rank is there; `end` ends its process. When all are there, the steps begin.
  void join(const AttemptId& attempt, int rank, int world_size, const Program& program,
            EndRank end);
  // Its process is gone. `well`: with exit code 0.
  void leave(const AttemptId& attempt, int rank, bool well);

 private:
  struct Gang {
    Program program;
    int world_size = 1;
    int step = 0;
    bool done = false;    // all steps are: whoever ends now is not missed
    bool broken = false;  // a rank is gone: no step is completed any more
    std::map<int, EndRank> ranks;
  };

  void go_on(const AttemptId& id);
  void arrive(const AttemptId& id, int step);
  void suffer(const AttemptId& id, Gang& gang);
  void finish(const AttemptId& id, Gang& gang);
  void end_later(const AttemptId& id, int rank, Duration delay, RankEnd how);
  Gang* whole_gang(const AttemptId& id);

  Scene& scene_;
  Truth& truth_;
  Dice dice_;
  std::map<AttemptId, Gang> gangs_;
};

}  // namespace lockstep::sim
