// FileFetch: a thread that gets the files that the ranks of a node need before they start, while
// the agent's loop goes on: the run's uploaded folder, and the checkpoint from which the attempt
// goes on.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/os/fd.h"
#include "base/result.h"
#include "platform/core/model/ids.h"
#include "platform/host/launch_spec.h"

namespace lockstep::agent {

struct FetchedFiles {
  std::string error{};      // empty: all are there
  bool is_missing = false;  // another attempt would find the same
  std::string note{};       // about the checkpoint, for the run's log; empty: none
};

class FileFetch {
 public:
  // True if a node has such files.
  static bool is_needed(const host::LaunchSpec& launch, const model::NodeId& node);
  // `launch` outlives this.
  static Result<std::unique_ptr<FileFetch>> start(const host::LaunchSpec& launch,
                                                  const model::NodeId& node);
  // Stops, and waits for a call that is under way, 20 s at most.
  ~FileFetch();
  FileFetch(const FileFetch&) = delete;
  FileFetch& operator=(const FileFetch&) = delete;

  // To be polled for reading: readable once there is a result that was not taken.
  int fd() const { return done_.get(); }
  // The result, once.
  std::optional<FetchedFiles> take_result() LS_EXCLUDES(mutex_);
  // Gets no more files.
  void stop() LS_EXCLUDES(mutex_);

 private:
  FileFetch(const host::LaunchSpec& launch, model::NodeId node, Fd done)
      : launch_(launch), node_(std::move(node)), done_(std::move(done)) {}
  void work() LS_EXCLUDES(mutex_);
  FetchedFiles fetch();
  bool pause(Duration duration) LS_EXCLUDES(mutex_);
  bool is_stopped() LS_EXCLUDES(mutex_);

  const host::LaunchSpec& launch_;
  const model::NodeId node_;
  Fd done_;  // an eventfd

  Mutex mutex_;  // guards what follows
  Condition changed_;
  bool stopped_ LS_GUARDED_BY(mutex_) = false;
  std::optional<FetchedFiles> result_ LS_GUARDED_BY(mutex_);

  std::thread thread_;  // the last member: it uses the others
};

}  // namespace lockstep::agent
