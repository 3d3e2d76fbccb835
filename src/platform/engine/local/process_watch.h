// ProcessWatch: finds and kills the processes of this machine that were started with a mark (an
// environment variable). It uses its own thread, because both may block: to read a process's
// environment the kernel locks its memory, and a hanging process may hold that lock forever.
//
// Each program is read once. The result is cached by process, start time and address of the
// environment (base/os/processes.h). So a scan costs one line of /proc for each process of the
// machine, and a process that clears its environment keeps the mark of its first scan.
//
// A process that cannot be read within two seconds is given up: it gets the marks of its parent and
// its session, and another thread takes over. The blocked thread ends with its read and does
// nothing more. The number of blocked threads is limited; beyond it no new process is found, and
// marks() fails.
//
// Limit: a process that cleared its environment before its first scan is not found.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::engine {

class ProcessWatch {
 public:
  // The process's mark, if any.
  using Read = std::function<std::optional<std::string>(pid_t)>;

  explicit ProcessWatch(std::string_view variable);
  explicit ProcessWatch(Read read);
  // Completes requested kills first, but waits a second at most.
  ~ProcessWatch();
  ProcessWatch(ProcessWatch&&) noexcept;
  ProcessWatch& operator=(ProcessWatch&&) noexcept;

  // The marks with a process at one of the last two scans, or with an expected one. Requests a scan
  // and waits for it a few milliseconds at most, but a second for the first one. So the result may
  // be older, but at most five seconds: otherwise it fails with Code::unavailable.
  Result<std::set<std::string>> marks();
  // Such a process has just been started: the mark counts until two scans that begin from now on
  // have not found one. A process shows no environment during exec.
  void expect(const std::string& mark);
  // Kills all processes with the mark, and their descendants. Returns at once.
  void kill(const std::string& mark);

 private:
  struct Shared;
  class Scanner;
  static void start_thread(const std::shared_ptr<Shared>& shared);

  // Shared with the threads, some of which may never return.
  std::shared_ptr<Shared> shared_;
};

}  // namespace lockstep::engine
