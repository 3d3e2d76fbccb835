#include "apps/run/follow.h"

#include <string_view>
#include <utility>

#include <signal.h>
#include <unistd.h>

#include "apps/cli/terminal.h"
#include "apps/run/run_display.h"
#include "base/os/environment.h"
#include "platform/client/chosen_daemon.h"

namespace lockstep::cli {
namespace {

volatile sig_atomic_t interrupted = 0;

// The message and exit code of the signal handler; set while no handler is installed.
std::string_view exit_message;
int last_code = kDone;

// Uses only functions that are safe in a signal handler.
void on_interrupt(int) {
  if (interrupted != 0) {
    [[maybe_unused]] auto written =
        ::write(STDERR_FILENO, exit_message.data(), exit_message.size());
    ::_exit(last_code);
  }
  interrupted = 1;
}

// Limits the time between Ctrl-C and the reaction to it.
constexpr auto kWait = std::chrono::seconds(1);
// Pages of a run that prints much follow each other at once; its state is asked for less often.
constexpr auto kViewInterval = std::chrono::milliseconds(300);

// Prints each state of the run once, and the time in that state while the run waits for its ranks.
class StateReporter {
 public:
  explicit StateReporter(bool wanted) : enabled_(wanted) {}

  // True if report() would print something new.
  bool would_report(const api::RunView& run) const {
    return enabled_ && state_line(run) != last_reported_;
  }
  void report(const api::RunView& run) {
    if (!enabled_) return;
    if (std::string line = state_line(run); line != last_reported_) {
      clear_line();
      waiting_.emplace();
      print_to_stderr(line);
      last_reported_ = std::move(line);
    }
    if (run.state == model::RunState::queued || run.state == model::RunState::starting)
      waiting_->show(format("still {}", text(run.state)));
  }
  // Call before other lines are printed.
  void clear_line() {
    if (waiting_) waiting_->wipe();
  }

 private:
  bool enabled_;
  std::string last_reported_;
  std::optional<WaitingLine> waiting_;  // since the last state change
};

}  // namespace

InterruptHandler::InterruptHandler(std::string words, int code)
    : message_(std::move(words) + "\n") {
  interrupted = 0;
  exit_message = message_;
  last_code = code;
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
}
InterruptHandler::~InterruptHandler() { ::signal(SIGINT, SIG_DFL); }

// The handler must not run while the message changes.
void InterruptHandler::set_message(std::string words, int code) {
  sigset_t interrupt, before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  ::sigprocmask(SIG_BLOCK, &interrupt, &before);
  message_ = std::move(words) + "\n";
  exit_message = message_;
  last_code = code;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

bool InterruptHandler::requested() { return interrupted != 0; }

void reconnect(client::Client& client) {
  ::usleep(200'000);
  if (auto found = client::open_chosen(own_environment())) client = *std::move(found);
}

std::string log_text(const api::LogLine& line, bool with_rank) {
  return with_rank ? format("[{}] {}", line.rank, line.text) : line.text;
}

std::string reattach_hint(const std::string& run) {
  return format(
      "{0} continues. `lockstep logs -f {0}` or `lockstep watch {0}` comes back to it, "
      "`lockstep stop {0}` ends it.",
      run);
}

std::string state_line(const api::RunView& run) { return format("{} {}", run.id, state_text(run)); }

void print_lines(const std::vector<api::LogLine>& lines, bool with_rank) {
  for (const api::LogLine& line : lines)
    print_buffered(escaped_for(STDOUT_FILENO, log_text(line, with_rank)));
  flush();
}

std::string unfinished_text(const api::LogPage& page, bool with_rank) {
  if (page.unfinished.empty()) return "";
  const api::LogLine& first = page.unfinished.front();
  if (page.unfinished.size() == 1) return log_text(first, with_rank);
  return format("[{}, {} more] {}", first.rank, page.unfinished.size() - 1, first.text);
}

namespace {

// The run without its attempts, checkpoints and events, which grow with its ranks. An older daemon
// has no such view.
Result<api::RunView> brief_view(client::Client& client, const model::RunId& id,
                                api::RunQuery query) {
  return retry_while_away(client, [&] {
    query.brief = true;
    auto run = client.call(api::kRun, {.path = id, .query = query});
    if (run || run.error().code != Code::invalid) return run;
    query.brief.reset();
    return client.call(api::kRun, {.path = id, .query = query});
  });
}

Result<api::RunView> full_view(client::Client& client, const model::RunId& id) {
  return retry_while_away(client, [&] { return client.call(api::kRun, {.path = id}); });
}

}  // namespace

Result<std::optional<api::RunView>> wait_for_end(client::Client& client, const model::RunId& id) {
  WaitingLine waiting;
  std::int64_t version = -1;
  while (!InterruptHandler::requested()) {
    const api::RunView run =
        TRY(brief_view(client, id, {.after_version = version, .wait_seconds = in_seconds(kWait)}));
    if (run.ended) return std::optional(TRY(full_view(client, id)));
    version = run.version;
    waiting.show(state_line(run));
  }
  return std::optional<api::RunView>();
}

Result<std::optional<api::RunView>> follow(client::Client& client, const model::RunId& id,
                                           const FollowOptions& options) {
  StateReporter states(options.show_states);
  LiveLine live;
  api::LogsQuery query{.after = options.after,
                       .rank = options.rank,
                       .tail = {},
                       .wait_seconds = in_seconds(kWait),
                       .unfinished = 0};
  api::RunView run;
  Deadline next_view = Deadline::after(Duration(0));
  while (!InterruptHandler::requested()) {
    if (next_view.passed()) {
      run = TRY(brief_view(client, id, {}));
      next_view = Deadline::after(kViewInterval);
    }
    if (states.would_report(run)) live.wipe();
    states.report(run);
    api::LogPage page = TRY(retry_while_away(
        client, [&] { return client.call(api::kLogs, {.path = id, .query = query}); }));
    bool with_rank = model::rank_count(run.spec) > 1 && !options.rank;
    if (!page.lines.empty()) {
      states.clear_line();
      live.wipe();
    }
    print_lines(page.lines, with_rank);
    query.after = page.next;
    query.unfinished = page.unfinished_version;
    live.show(unfinished_text(page, with_rank));
    if (!page.ended) continue;
    live.wipe();
    api::RunView end = TRY(full_view(client, id));
    states.report(end);
    return std::optional(std::move(end));
  }
  return std::optional<api::RunView>();
}

}  // namespace lockstep::cli
