// SimStore: a Store whose disk fills up, under a daemon that dies before or after a commit; and
// which is moved away, or gives way to an older copy, while no daemon has it.
#pragma once

#include <vector>

#include "platform/store/store.h"
#include "sim/checks/ground_truth.h"
#include "sim/faults/crash_points.h"

namespace lockstep::sim {

class SimStore : public store::Store {
 public:
  SimStore(SimContext& context, CrashPoints& crash_points, GroundTruth& truth,
           model::State& durable)
      : context_(context), crash_points_(crash_points), truth_(truth), durable_(durable) {}

  Result<model::State> load() override;
  Result<std::optional<model::RunRows>> find_run(const model::RunId& run) override;
  Result<std::optional<model::RunId>> find_request(const std::string& request_id) override;
  Result<std::vector<model::Run>> list_runs(const model::RunFilter& filter) override;
  Result<void> commit(std::span<const model::Change> changes) override;
  Result<void> remove_run(const model::RunRows& run, std::span<const model::Change> also) override;
  Result<void> check_writable() override;

  // Keeps a copy as it is now.
  void copy() { copies_.push_back(durable_); }
  const std::vector<model::State>& copies() const { return copies_; }
  // Another takes its place, and it is kept as a copy: an empty one, or one of the copies.
  void replace(model::State other);
  int replaced() const { return replaced_; }

  void set_full(bool full) { full_ = full; }
  bool full() const { return full_; }
  // Grows with each commit that succeeded.
  std::int64_t commits() const { return commits_; }
  // And with each that was refused because the disk was full.
  std::int64_t refusals() const { return refusals_; }

 private:
  void trace_change(const model::Change& change) const;

  SimContext& context_;
  CrashPoints& crash_points_;
  GroundTruth& truth_;
  model::State& durable_;
  std::vector<model::State> copies_;
  int replaced_ = 0;
  bool full_ = false;
  std::int64_t commits_ = 0;
  std::int64_t refusals_ = 0;
};

}  // namespace lockstep::sim
