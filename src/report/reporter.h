// Reporter: a rank's reports to its agent: metrics, progress, finished checkpoints, events, and why
// it must end. They are JSON lines over the Unix socket that LOCKSTEP_REPORT names. No call blocks:
// lines go into a bounded queue that one background thread empties. An agent whose disk hangs may
// read nothing for many seconds: meanwhile the queue fills. Then metrics and progress are dropped
// and counted; the loss is logged once. Only fault() waits: the process is about to end.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/os/fd.h"
#include "base/units.h"
#include "report/fault/fault.h"

namespace lockstep::report {

struct Metric {
  std::string name;
  double value = 0;  // may be infinite or not a number: it arrives unchanged
};

// Without an agent: print metrics and events to standard output, a line each, or nothing at all.
enum class WithoutAgent { print, discard };

struct ReporterOptions {
  std::filesystem::path socket;  // of the agent; empty: there is none
  // There is an agent, and the first line finds or starts it (attachment.h). If that fails, lines
  // are printed or discarded as without an agent.
  bool attaches = false;
  WithoutAgent without_agent = WithoutAgent::print;
  Duration line_timeout = std::chrono::minutes(1);      // for one line, while the program runs
  Duration delivery_timeout = std::chrono::seconds(1);  // for all lines, at the end
  std::size_t queue_limit = 16'384;                     // lines of metrics and progress
};

class Reporter {
 public:
  // Uses the socket that LOCKSTEP_REPORT names; else, if LOCKSTEP_URL is set, the agent of the job.
  static std::unique_ptr<Reporter> from_environment(WithoutAgent without_agent);
  explicit Reporter(ReporterOptions options);
  // Delivers the queued lines, within `delivery_timeout`.
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  void metrics(std::int64_t step, const std::vector<Metric>& values);
  void progress(std::int64_t step, std::int64_t steps);
  // A checkpoint is complete and will be found by a later attempt.
  void checkpoint(std::int64_t step, const std::filesystem::path& path);
  // An event of the training, in one line: `lockstep show` lists it among the run's events. One
  // rank sends it, and rarely: the newest 200 of a run are kept.
  void event(std::int64_t step, std::string_view what);

  // This rank is about to end, and its own program did not fail. `rank`: the global rank at fault,
  // -1 if it is not known. `text`: one line for users. Returns once the agent has it and all lines
  // before it, within `delivery_timeout`. The first fault counts, until the rank reports a further
  // step.
  void fault(Fault fault, int rank, std::string_view text);

  // Lines dropped so far.
  std::int64_t dropped() const;

 private:
  void enqueue(std::string line);  // dropped if the queue is full
  void enqueue_always(std::string line);
  bool has_agent() const;
  void flush();
  void run();
  void attach();
  void print_notes();
  bool deliver(std::string_view line);
  bool connect();
  bool is_overdue(const Deadline& line) const;
  bool send(std::string_view line);
  void drop();

  const ReporterOptions options_;
  // Used by the background thread:
  Fd socket_;
  std::filesystem::path agent_;  // its socket, once it is known
  Deadline next_notes_ = Deadline::after(Duration(0));

  mutable Mutex mutex_;  // guards what follows
  Condition changed_;
  std::deque<std::string> queue_ LS_GUARDED_BY(mutex_);
  bool delivering_ LS_GUARDED_BY(mutex_) = false;  // a line that is no longer in the queue
  bool stopping_ LS_GUARDED_BY(mutex_) = false;
  bool has_agent_ LS_GUARDED_BY(mutex_) = false;
  Deadline end_ LS_GUARDED_BY(mutex_) = Deadline::after(Duration(0));  // once stopping
  std::int64_t dropped_ LS_GUARDED_BY(mutex_) = 0;

  std::thread thread_;  // last: it uses the rest
};

}  // namespace lockstep::report
