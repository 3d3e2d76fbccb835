// Follows a run until it ends: prints its lines and state changes as they come. Ctrl-C detaches
// from the run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/cli/exit_codes.h"
#include "apps/cli/terminal.h"
#include "base/clock.h"
#include "base/result.h"
#include "platform/client/client.h"

namespace lockstep::cli {

// While one lives, the first Ctrl-C sets a flag instead of ending the program. The second ends it
// at once, whatever it waits for, with this message on standard error and this exit code.
class InterruptHandler {
 public:
  explicit InterruptHandler(std::string last_words, int code = kDone);
  ~InterruptHandler();
  // Changes message and exit code; an earlier Ctrl-C still counts.
  void set_message(std::string last_words, int code = kDone);
  InterruptHandler(const InterruptHandler&) = delete;
  InterruptHandler& operator=(const InterruptHandler&) = delete;
  static bool requested();

 private:
  std::string message_;  // read by the signal handler
};

// Waits a moment, then connects `client` to the current daemon, if there is one.
void reconnect(client::Client& client);

// Returns the call's answer. While the daemon is away or does not answer (it may be restarted; runs
// go on without it), repeats the call, for a minute at most and until Ctrl-C.
template <class Call>
auto retry_while_away(client::Client& client, Call call) -> decltype(call()) {
  WaitingLine waiting(NonTerminalOutput::once);
  for (Deadline deadline = Deadline::after(std::chrono::minutes(1));; reconnect(client)) {
    auto answer = call();
    const bool away = !answer && (answer.error().code == Code::unavailable ||
                                  answer.error().code == Code::timeout);
    if (!away || deadline.passed() || InterruptHandler::requested()) return answer;
    waiting.show("the daemon is away; waiting for it to come back");
  }
}

struct FollowOptions {
  std::optional<int> rank;  // only its lines
  std::int64_t after = 0;   // cursor of the last line already seen
  bool show_states = true;  // print state changes to standard error
};

// Waits until the run has ended and returns its final state; nothing after Ctrl-C. The caller must
// hold an InterruptHandler.
Result<std::optional<api::RunView>> wait_for_end(client::Client& client, const model::RunId& id);

// Prints lines until the run has ended, and returns its final state; nothing after Ctrl-C. The
// caller must hold an InterruptHandler.
Result<std::optional<api::RunView>> follow(client::Client& client, const model::RunId& id,
                                           const FollowOptions& options);

// One line as `logs` prints it: "[3] text" where a run has several ranks.
std::string log_text(const api::LogLine& line, bool with_rank);

// The command to type after detaching from a run.
std::string reattach_hint(const std::string& run);

// Prints many lines at once and flushes them.
void print_lines(const std::vector<api::LogLine>& lines, bool with_rank);

// The unfinished lines of the ranks as one line: the line of the lowest rank, and how many more
// ranks have one. Empty if there is none.
std::string unfinished_text(const api::LogPage& page, bool with_rank);

// "demo/1 failed: rank 3 exited with code 1", with its progress; for people.
std::string state_line(const api::RunView& run);

}  // namespace lockstep::cli
