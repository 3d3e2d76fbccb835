// A rank's reports to Lockstep: metrics, progress, finished checkpoints, events. They show in
// lockstep show, lockstep metrics and lockstep plot. Link Lockstep::comm.
//
//   lockstep::Reporter reporter;
//   reporter.metric(step, "loss", loss);
//   reporter.progress(step, steps);
//
// No call blocks: a background thread delivers the lines, through the socket that LOCKSTEP_REPORT
// names. A line that cannot be delivered within a second is dropped and counted.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "lockstep/export.h"

namespace lockstep {

class LOCKSTEP_EXPORT Reporter {
 public:
  // Outside of lockstep run.
  enum class WithoutRun {
    print,  // metrics and events go to standard output, a line each
    discard,
  };
  explicit Reporter(WithoutRun without_run = WithoutRun::print);
  // Delivers what is queued, for at most a second.
  ~Reporter();
  Reporter(Reporter&&) noexcept;
  Reporter& operator=(Reporter&&) noexcept;

  // A value after this step. Infinity and NaN are kept.
  void metric(std::int64_t step, std::string_view name, double value);
  // `step` of `steps` are done. A rank that reports progress counts as hung when it stops to.
  void progress(std::int64_t step, std::int64_t steps);
  // A complete checkpoint, which a later attempt of the run finds.
  void checkpoint(std::int64_t step, std::string_view path);
  // An event of the training, in one line. For one rank, and rarely: a run keeps the newest 200.
  void event(std::int64_t step, std::string_view text);

  // Lines dropped so far.
  std::int64_t dropped() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
