// SimHistory: the history of stores that the daemon's folder keeps, in the simulation.
#pragma once

#include "platform/store/history_store.h"
#include "sim/faults/crash_points.h"
#include "sim/faults/seeded_random.h"

namespace lockstep::sim {

class SimHistory : public store::HistoryStore {
 public:
  SimHistory(const CrashPoints& crash_points, std::uint64_t seed)
      : crash_points_(crash_points), random_(seed, "generations") {}

  Result<model::StoreHistory> load() override { return history_; }
  Result<void> store(const model::StoreHistory& history) override {
    if (!crash_points_.alive()) return Error{Code::unavailable, "the daemon is dead"};
    history_ = history;
    return {};
  }
  std::string new_generation() override {
    return format("{:08x}{:08x}", random_.from_to(1, 1 << 30), ++named_);
  }

 private:
  const CrashPoints& crash_points_;
  SeededRandom random_;
  model::StoreHistory history_;
  int named_ = 0;
};

}  // namespace lockstep::sim
