// Budgets: in some seeds projects have budgets, which administrators grant, withdraw and move while
// runs go on.
#pragma once

#include <string>

#include "sim/faults/seeded_random.h"
#include "sim/world/daemon.h"

namespace lockstep::sim {

class Budgets {
 public:
  Budgets(SimContext& context, Daemon& daemon, std::uint64_t seed)
      : context_(context), daemon_(daemon), random_(seed, "budgets") {}

  // First grants soon, then changes now and then.
  void begin();
  // No project has a budget as soon as the daemon accepts that.
  void stop_and_undo();

 private:
  void plan();
  void change_any();
  void grant();
  bool request(const model::Event& event, const std::string& what);
  void lift(const std::string& project);

  SimContext& context_;
  Daemon& daemon_;
  SeededRandom random_;
  bool stopped_ = false;
};

}  // namespace lockstep::sim
