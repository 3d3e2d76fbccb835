// Users: who submit runs of all kinds, and sometimes stop or resume one.
#pragma once

#include <vector>

#include "sim/daemon.h"
#include "sim/dice.h"
#include "sim/program.h"
#include "sim/truth.h"

namespace lockstep::sim {

class Users {
 public:
  Users(Scene& scene, Daemon& daemon, Truth& truth, std::uint64_t seed)
      : scene_(scene), daemon_(daemon), truth_(truth), dice_(seed, "users") {}

  // Within `span` from now they submit `runs` runs and change their minds now and then.
  void begin(int runs, Duration span);

 private:
  void submit(const RunSpec& spec, const std::string& request_id);
  void change_a_mind();
  Result<void> stop(const RunId& run);
  Result<void> resume(const RunId& run);
  RunSpec any_spec();
  Program any_program();

  Scene& scene_;
  Daemon& daemon_;
  Truth& truth_;
  Dice dice_;
  std::vector<RunId> mine_;
  int requests_ = 0;
};

}  // namespace lockstep::sim
