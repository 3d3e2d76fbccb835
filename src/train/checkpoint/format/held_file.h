// HeldFile: a new file whose lock and time tell others that its maker is alive.
#pragma once

#include <filesystem>
#include <string_view>
#include <thread>

#include "base/fd.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/units.h"

namespace lockstep {

class HeldFile {
 public:
  // Makes the file, and locks it where the file system can. A forked child does not keep the lock.
  static Result<Fd> create(const std::filesystem::path& path, bool& locked);

  // Renews the file's time every `beat`, in a thread.
  HeldFile(Fd fd, Duration beat);
  ~HeldFile();
  HeldFile(const HeldFile&) = delete;
  HeldFile& operator=(const HeldFile&) = delete;

  // Not in a forked child, which has no part in what its parent holds.
  bool is_ours() const;

 private:
  void run(Duration beat);

  Fd fd_;
  ForkGuard guard_;  // forgets the descriptor before it is closed
  Mutex mutex_;      // guards what follows
  Condition changed_;
  bool stopping_ LS_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace lockstep
