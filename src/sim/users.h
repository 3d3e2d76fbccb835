// Users: who submit runs of all kinds, with wishes about when they start, and sometimes stop or
// resume one.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "sim/daemon.h"
#include "sim/dice.h"
#include "sim/program.h"
#include "sim/truth.h"

namespace lockstep::sim {

inline constexpr std::array<std::string_view, 3> kUserNames = {"ann", "bob", "eve"};
inline constexpr std::array<std::string_view, 2> kProjects = {"demo", "other"};

class Users {
 public:
  Users(Scene& scene, Daemon& daemon, Truth& truth, std::uint64_t seed)
      : scene_(scene), daemon_(daemon), truth_(truth), dice_(seed, "users") {}

  // Within `span` from now they submit `runs` runs and change their minds now and then.
  void begin(int runs, Duration span);

 private:
  // What they know of, by the seed.
  struct Habits {
    bool hurry = false;  // all come within a few minutes
    bool classes = false;
    bool priorities = false;
    bool order = false;    // some runs follow others
    bool moments = false;  // or start at a moment of their own
  };

  void submit_later(Duration span);
  void submit(const RunSpec& spec, const Origin& by, const std::string& request_id);
  void change_a_mind();
  Result<void> stop(const RunId& run);
  Result<void> resume(const RunId& run);
  RunSpec any_spec();
  void add_wishes(RunSpec& spec);
  Program any_program();

  Scene& scene_;
  Daemon& daemon_;
  Truth& truth_;
  Dice dice_;
  Habits habits_;
  std::vector<RunId> mine_;
  int requests_ = 0;
  int specs_ = 0;
};

}  // namespace lockstep::sim
