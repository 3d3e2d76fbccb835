// ProcessWatch: which processes of this machine were started with a mark (a variable of their
// environment), seen and killed by a thread of its own, because both may wait: to read a process's
// environment the kernel locks its memory, and a process that hangs may keep that locked for ever.
//
// Each program is read once. What was read is remembered by process, start and place of the
// environment (base/processes.h), so a look costs one line of /proc for each process of the
// machine, and a process that clears its environment keeps the mark that it was seen with.
//
// A process that does not let itself be read within two seconds is given up: it counts by the marks
// of its parent and its session, another thread takes over, and the one that waits ends with its
// wait, doing nothing more. So many threads may wait at once; beyond that nothing new is seen,
// which marks() says.
//
// Limit: nobody sees a process that cleared its environment before it was looked at.
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

namespace lockstep {

class ProcessWatch {
 public:
  // The process's mark; none: nothing.
  using Read = std::function<std::optional<std::string>(pid_t)>;

  explicit ProcessWatch(std::string_view variable);
  explicit ProcessWatch(Read read);
  // Ends what was to be killed first; waits a second for that at most.
  ~ProcessWatch();
  ProcessWatch(ProcessWatch&&) noexcept;
  ProcessWatch& operator=(ProcessWatch&&) noexcept;

  // The marks of which a process was left at the last two looks, or is expected. Asks for another
  // look and waits for its end a few milliseconds at most, but a second for the first; so this may
  // be older, but not by more than five seconds: then Code::unavailable says why.
  Result<std::set<std::string>> marks();
  // Such a process has just been started: the mark counts until two looks that begin from now on
  // have not seen one. What is in the midst of exec shows nothing for a moment.
  void expect(const std::string& mark);
  // Ends all processes with the mark, and all below them. Returns at once.
  void kill(const std::string& mark);

 private:
  struct Shared;
  class Looker;
  static void start_thread(const std::shared_ptr<Shared>& shared);

  // Shared with the threads, of which some may never come back.
  std::shared_ptr<Shared> shared_;
};

}  // namespace lockstep
