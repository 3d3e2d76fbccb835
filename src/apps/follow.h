// Staying with a run until it ends: its lines as they come, its turns of state, Ctrl-C to let it go
// on alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/exit_codes.h"
#include "apps/terminal.h"
#include "base/clock.h"
#include "base/result.h"
#include "platform/client/client.h"

namespace lockstep {

// While one lives, the first Ctrl-C sets a flag instead of ending the program. The second ends it
// at once, whatever it waits for, with these last words on standard error and this exit code.
class Interrupt {
 public:
  explicit Interrupt(std::string last_words, int code = kDone);
  ~Interrupt();
  // From now on it ends with these; a Ctrl-C that came already still counts.
  void change(std::string last_words, int code = kDone);
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  static bool requested();

 private:
  std::string last_words_;  // where the handler finds them
};

// Waits a moment, then makes `client` one of the daemon that is there now, if any.
void find_daemon_again(Client& client);

// The call's answer. While the daemon is away or does not answer (it may be restarted; runs go on
// without it) the call is made again, until Ctrl-C and not after a minute.
template <class Call>
auto patiently(Client& client, Call call) -> decltype(call()) {
  WaitingLine waiting(OffTerminal::once);
  for (Deadline deadline = Deadline::after(std::chrono::minutes(1));; find_daemon_again(client)) {
    auto answer = call();
    const bool away = !answer && (answer.error().code == Code::unavailable ||
                                  answer.error().code == Code::timeout);
    if (!away || deadline.passed() || Interrupt::requested()) return answer;
    waiting.show("the daemon is away; waiting for it to come back");
  }
}

struct FollowOptions {
  std::optional<int> rank;  // only its lines
  std::int64_t after = 0;   // cursor of the last line already seen
  bool states = true;       // say on standard error when the state changes
};

// Waits until the run has ended and says how it ended; nothing when Ctrl-C came first. The caller
// has an Interrupt.
Result<std::optional<api::RunView>> await_end(Client& client, const RunId& id);

// Prints lines until the run has ended, and gives the run as it ended; nothing when Ctrl-C came
// first. The caller has an Interrupt.
Result<std::optional<api::RunView>> follow(Client& client, const RunId& id,
                                           const FollowOptions& options);

// One line as `logs` prints it: "[3] text" where a run has several ranks.
std::string log_text(const api::LogLine& line, bool with_rank);

// What to type after detaching from a run.
std::string how_to_come_back(const std::string& run);

// Many lines at once, and shown.
void print_lines(const std::vector<api::LogLine>& lines, bool with_rank);

// What ranks have written of lines without an end yet, as one line: the lowest rank's, and how many
// more have one. Empty: none.
std::string unfinished_text(const api::LogPage& page, bool with_rank);

// "demo/1 failed: rank 3 exited with code 1" and where it stands; for people.
std::string state_line(const api::RunView& run);

}  // namespace lockstep
