#include "sim/replay/replay.h"

#include <set>
#include <utility>

#include "base/check.h"
#include "base/format.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kDecisionsBetweenProgress = 256;

// The current execution of a running job.
struct JobExecution {
  Seconds since{};
  Seconds left{};      // of its work, at `since`
  bool began = false;  // it has held devices before
};

class Replay {
 public:
  Replay(const JobTrace& trace, int devices, ReplayBackend& backend)
      : trace_(trace), devices_(devices), backend_(backend) {
    replayed_.jobs.resize(trace.jobs.size());
    for (const Job& job : trace.jobs) stays_.push_back({.left = job.duration});
  }

  Result<ReplayResult> run(const std::function<void(std::size_t)>& progress) {
    for (std::size_t decisions = 0; ended_ < trace_.jobs.size(); ++decisions) {
      const auto now = next_event();
      if (!now) return no_job_starts();
      TRY(decide(*now));
      if (progress && decisions % kDecisionsBetweenProgress == 0) progress(ended_);
    }
    return std::move(replayed_);
  }

 private:
  const Job& job(JobId id) const { return trace_.jobs[static_cast<std::size_t>(id.value())]; }
  JobExecution& stay(JobId id) { return stays_[static_cast<std::size_t>(id.value())]; }
  JobOutcome& outcome(JobId id) { return replayed_.jobs[static_cast<std::size_t>(id.value())]; }

  std::optional<Seconds> next_event() const {
    std::optional<Seconds> next;
    if (!ends_.empty()) next = ends_.begin()->first;
    if (arrived_ < trace_.jobs.size()) {
      const Seconds submitted = trace_.jobs[arrived_].submitted;
      if (!next || submitted < *next) next = submitted;
    }
    return next;
  }

  Result<void> decide(Seconds now) {
    const auto ended = take_ended(now);
    const auto arrived = take_arrived(now);
    const Decision decision = TRY(backend_.decide(now, ended, arrived));
    for (const JobId id : decision.evicted) evict(id, now);
    for (const JobId id : decision.moved) move(id, now);
    for (const JobId id : decision.started) start(id, now);
    LS_CHECK(held_ <= devices_, "{} of {} devices are held", held_, devices_);
    const bool scattered = decision.head && job(*decision.head).devices <= devices_ - held_;
    replayed_.moments.push_back({now, held_, waiting_ > 0, scattered});
    return {};
  }

  std::vector<JobId> take_ended(Seconds now) {
    std::vector<JobId> ended;
    for (; !ends_.empty() && ends_.begin()->first == now; ends_.erase(ends_.begin())) {
      const JobId id = ends_.begin()->second;
      outcome(id).ended = now;
      held_ -= job(id).devices;
      ++ended_;
      ended.push_back(id);
    }
    return ended;
  }

  std::vector<JobId> take_arrived(Seconds now) {
    std::vector<JobId> arrived;
    for (; arrived_ < trace_.jobs.size() && trace_.jobs[arrived_].submitted == now; ++arrived_) {
      arrived.emplace_back(static_cast<std::int64_t>(arrived_));
      ++waiting_;
    }
    return arrived;
  }

  void start(JobId id, Seconds now) {
    --waiting_;
    held_ += job(id).devices;
    JobExecution& at = stay(id);
    if (!at.began) outcome(id).started = now;
    at.began = true;
    at.since = now;
    ends_.emplace(now + at.left, id);
  }

  void move(JobId id, Seconds now) {
    interrupt(id, now);
    ends_.emplace(now + stay(id).left, id);
    ++outcome(id).moves;
  }

  void evict(JobId id, Seconds now) {
    interrupt(id, now);
    held_ -= job(id).devices;
    ++waiting_;
    ++outcome(id).evictions;
  }

  // The job returns to its last checkpoint.
  void interrupt(JobId id, Seconds now) {
    JobExecution& at = stay(id);
    LS_CHECK(ends_.erase({at.since + at.left, id}) == 1, "job {} is to leave and does not run", id);
    const Seconds undone = (now - at.since) % kCheckpointEvery;
    at.left += undone + kRestartCost - (now - at.since);
    at.since = now;
    replayed_.lost += (undone + kRestartCost) * job(id).devices;
  }

  Error no_job_starts() const {
    return {Code::internal,
            format("{}: of {} jobs {} wait, nothing runs, and the scheduler starts none of them",
                   trace_.name, trace_.jobs.size(), waiting_)};
  }

  const JobTrace& trace_;
  const int devices_;
  ReplayBackend& backend_;
  ReplayResult replayed_;
  std::vector<JobExecution> stays_;
  std::set<std::pair<Seconds, JobId>> ends_;
  std::size_t arrived_ = 0, ended_ = 0, waiting_ = 0;
  int held_ = 0;
};

}  // namespace

Result<ReplayResult> replay(const JobTrace& trace, int devices, ReplayBackend& backend,
                            const std::function<void(std::size_t)>& progress) {
  return Replay(trace, devices, backend).run(progress);
}

}  // namespace lockstep::sim
