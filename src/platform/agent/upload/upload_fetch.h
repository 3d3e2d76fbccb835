// UploadFetch: a thread that gets the run's uploaded folder, while the agent's loop goes on.
#pragma once

#include <memory>
#include <optional>
#include <thread>

#include "base/mutex.h"
#include "base/os/fd.h"
#include "base/result.h"
#include "platform/core/model/ids.h"
#include "platform/host/launch_spec.h"

namespace lockstep::agent {

class UploadFetch {
 public:
  // `launch` has an upload and outlives this.
  static Result<std::unique_ptr<UploadFetch>> start(const host::LaunchSpec& launch,
                                                    const model::NodeId& node);
  // Stops, and waits for a call that is under way, 10 s at most.
  ~UploadFetch();
  UploadFetch(const UploadFetch&) = delete;
  UploadFetch& operator=(const UploadFetch&) = delete;

  // To be polled for reading: readable once there is a result that was not taken.
  int fd() const { return done_.get(); }
  // The result, once. An error of the code not_found, corrupt or invalid is one of the folder,
  // which another attempt would find, too.
  std::optional<Result<void>> take_result() LS_EXCLUDES(mutex_);
  // Gets no more files.
  void stop() LS_EXCLUDES(mutex_);

 private:
  UploadFetch(const host::LaunchSpec& launch, model::NodeId node, Fd done)
      : launch_(launch), node_(std::move(node)), done_(std::move(done)) {}
  void work() LS_EXCLUDES(mutex_);
  bool pause(Duration duration) LS_EXCLUDES(mutex_);
  bool is_stopped() LS_EXCLUDES(mutex_);

  const host::LaunchSpec& launch_;
  const model::NodeId node_;
  Fd done_;  // an eventfd

  Mutex mutex_;  // guards what follows
  Condition changed_;
  bool stopped_ LS_GUARDED_BY(mutex_) = false;
  std::optional<Result<void>> result_ LS_GUARDED_BY(mutex_);

  std::thread thread_;  // the last member: it uses the others
};

}  // namespace lockstep::agent
