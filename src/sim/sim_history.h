// SimHistory: what the daemon's folder remembers of its stores, in the simulated world.
#pragma once

#include "platform/store/history_keeper.h"
#include "sim/dice.h"
#include "sim/life.h"

namespace lockstep::sim {

class SimHistory : public HistoryKeeper {
 public:
  SimHistory(const Life& life, std::uint64_t seed) : life_(life), dice_(seed, "generations") {}

  Result<History> load() override { return history_; }
  Result<void> keep(const History& history) override {
    if (!life_.alive()) return Error{Code::unavailable, "the daemon is dead"};
    history_ = history;
    return {};
  }
  std::string new_generation() override {
    return format("{:08x}{:08x}", dice_.from_to(1, 1 << 30), ++named_);
  }

 private:
  const Life& life_;
  Dice dice_;
  History history_;
  int named_ = 0;
};

}  // namespace lockstep::sim
