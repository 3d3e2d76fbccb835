// LeaseFile: a new file whose lock and time show others that its creator is alive.
#pragma once

#include <filesystem>
#include <string_view>
#include <thread>

#include "base/mutex.h"
#include "base/os/fd.h"
#include "base/os/fork_guard.h"
#include "base/result.h"
#include "base/units.h"

namespace lockstep::train {

class LeaseFile {
 public:
  // Creates the file, and locks it if the file system supports locks. A forked child does not keep
  // the lock.
  static Result<Fd> create(const std::filesystem::path& path, bool& locked);

  // Renews the file's time every `interval`, in a thread.
  LeaseFile(Fd fd, Duration interval);
  ~LeaseFile();
  LeaseFile(const LeaseFile&) = delete;
  LeaseFile& operator=(const LeaseFile&) = delete;

  // False in a forked child, which does not own its parent's lease.
  bool in_owner_process() const;

 private:
  void run(Duration interval);

  Fd fd_;
  ForkGuard guard_;  // removes the descriptor before it is closed
  Mutex mutex_;      // guards what follows
  Condition changed_;
  bool stopping_ LS_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace lockstep::train
