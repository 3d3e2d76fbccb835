// Users submit runs of all kinds, with scheduling options, and sometimes stop or resume one.
#pragma once

#include <string>
#include <vector>

#include "sim/checks/ground_truth.h"
#include "sim/faults/seeded_random.h"
#include "sim/world/daemon.h"
#include "sim/world/people.h"
#include "sim/world/program.h"

namespace lockstep::sim {

inline constexpr int kSeedsWithPersonalProject = 30;  // percent

class Users {
 public:
  Users(SimContext& context, Daemon& daemon, People& people, GroundTruth& truth, std::uint64_t seed)
      : context_(context),
        daemon_(daemon),
        people_(people),
        truth_(truth),
        random_(seed, "users"),
        has_personal_project_(SeededRandom(seed, "personal").percent(kSeedsWithPersonalProject)) {}

  // Within `span` from now they submit `runs` runs and change their minds now and then.
  void begin(int runs, Duration span);

 private:
  // The options that users know, chosen by the seed.
  struct Habits {
    bool hurry = false;  // all come within a few minutes
    bool classes = false;
    bool priorities = false;
    bool order = false;    // some runs follow others
    bool moments = false;  // or start at a moment of their own
  };

  void submit_later(Duration span);
  void submit(const model::RunSpec& spec, const People::Caller& by, const std::string& request_id);
  Result<model::RunId> try_submit(model::RunSpec spec, const People::Caller& by,
                                  const std::string& request_id);
  void stop_or_resume_any_run();
  Result<void> stop(const model::RunId& run);
  Result<void> resume(const model::RunId& run);
  model::RunSpec any_spec();
  void add_scheduling_options(model::RunSpec& spec);
  Program any_program();

  SimContext& context_;
  Daemon& daemon_;
  People& people_;
  GroundTruth& truth_;
  SeededRandom random_;
  const bool has_personal_project_;  // the last of kProjects
  Habits habits_;
  std::vector<model::RunId> submitted_runs_;
  int requests_ = 0;
  int specs_ = 0;
};

}  // namespace lockstep::sim
