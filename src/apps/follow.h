// Staying with a run until it ends: its lines as they come, its turns of state, Ctrl-C to let it go
// on alone.
#pragma once

#include <optional>

#include "base/result.h"
#include "platform/client/client.h"

namespace lockstep {

// While one lives, Ctrl-C sets a flag instead of ending the program.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  static bool requested();
};

struct FollowOptions {
  std::optional<int> rank;  // only its lines
  std::int64_t after = 0;   // cursor of the last line already seen
  bool states = true;       // say on standard error when the state changes
};

// Prints lines until the run has ended, and gives the run as it ended; nothing when Ctrl-C came
// first.
Result<std::optional<api::RunView>> follow(Client& client, const RunId& id,
                                           const FollowOptions& options);

// One line as `logs` prints it: "[3] text" where a run has several ranks.
std::string log_text(const api::LogLine& line, bool with_rank);

// What to type after detaching from a run.
std::string how_to_come_back(const std::string& run);

// "demo/1 failed: rank 3 exited with code 1" and where it stands; for people.
std::string state_line(const api::RunView& run);

}  // namespace lockstep
