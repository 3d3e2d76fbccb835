// Training: what the ranks of each attempt compute together: steps, checkpoints on a disk that all
// hosts share, the misfortunes of their program, and what its peers make of a lost rank.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "platform/core/model/attempt.h"
#include "sim/checks/ground_truth.h"
#include "sim/faults/seeded_random.h"
#include "sim/sim_context.h"
#include "sim/world/program.h"

namespace lockstep::sim {

struct RankEnd {
  model::RankState state = model::RankState::exited;
  int code = 0;
  report::Fault fault = report::Fault::none;  // that it reports before
  int fault_rank = -1;
};

// The progress that a rank has reported.
struct Progress {
  int step = -1;          // the last; -1: none yet
  Duration since_step{};  // how long ago that was
};

class Training {
 public:
  using EndRank = std::function<void(RankEnd)>;

  Training(SimContext& context, GroundTruth& truth, std::uint64_t seed)
      : context_(context), truth_(truth), random_(seed, "training") {}

  // A rank is there; `end` ends its process. When all are there, the steps begin.
  void join(const model::AttemptName& attempt, int rank, int world_size, const Program& program,
            EndRank end);
  // Its process is gone. `well`: with exit code 0.
  void leave(const model::AttemptName& attempt, int rank, bool well);
  // Suspends or resumes the rank's process: no step is completed without it.
  void suspend(const model::AttemptName& attempt, int rank);
  void resume(const model::AttemptName& attempt, int rank);
  // The progress of every rank of the attempt, since they step together.
  Progress progress(const model::AttemptName& attempt) const;
  // Cuts the link between two ranks: both live, and end because they lost each other.
  void cut_connection(const model::AttemptName& attempt, int one, int other);
  // The last complete checkpoint that the ranks have reported.
  std::optional<Time> last_checkpoint(const model::AttemptName& attempt) const;
  std::optional<std::int64_t> last_checkpoint_step(const model::AttemptName& attempt) const;

 private:
  struct Gang {
    Program program;
    int world_size = 1;
    int first_step = 0;         // from which the attempt went on
    int step = 0;               // all of which have been taken by `stepped`
    Duration last_step_time{};  // on the timeline
    std::optional<Time> saved;  // by the clock, a checkpoint was
    std::optional<std::int64_t> saved_step;
    int next = 0;           // the step that is planned, while they go on
    bool stepping = false;  // more steps follow it, each in its time
    bool done = false;      // all steps are: a rank that ends now is not missed
    bool broken = false;    // a rank is gone: no step is completed any more
    std::int64_t plan = 0;  // what was planned under an earlier one is void
    std::map<int, EndRank> ranks;
    std::set<int> suspended;       // these stand still
    std::optional<int> stuck;      // this one runs on without a step
    std::map<int, int> cut_peers;  // the connection from one rank to another is; by rank
  };

  void plan_next_step(const model::AttemptName& id);
  static void stop_stepping(Gang& gang, Duration now);
  void complete_step(const model::AttemptName& id, std::int64_t plan);
  void inject_program_fault(const model::AttemptName& id, Gang& gang);
  void finish(const model::AttemptName& id, Gang& gang);
  void plan_step_timeout(const model::AttemptName& id, const Gang& gang);
  void end_by_step_timeout(const model::AttemptName& id, const Gang& gang);
  void end_later(const model::AttemptName& id, int rank, Duration delay, RankEnd how);
  static RankEnd peer_loss_end_of(const Gang& gang, int rank);
  Gang* whole_gang(const model::AttemptName& id);

  SimContext& context_;
  GroundTruth& truth_;
  SeededRandom random_;
  std::map<model::AttemptName, Gang> gangs_;
};

}  // namespace lockstep::sim
