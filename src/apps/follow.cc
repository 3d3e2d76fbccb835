#include "apps/follow.h"

#include <string_view>
#include <utility>

#include <signal.h>
#include <unistd.h>

#include "apps/own_daemon.h"
#include "apps/present.h"
#include "apps/terminal.h"

namespace lockstep {
namespace {

volatile sig_atomic_t interrupted = 0;

// What the handler says and returns; set while no handler is.
std::string_view last_words;
int last_code = kDone;

// Only calls that a signal handler may make.
void on_interrupt(int) {
  if (interrupted != 0) {
    [[maybe_unused]] auto written = ::write(STDERR_FILENO, last_words.data(), last_words.size());
    ::_exit(last_code);
  }
  interrupted = 1;
}

// A second at most passes between Ctrl-C and the answer to it.
constexpr auto kWait = std::chrono::seconds(1);

// Says each turn of the run's state once, and while it waits for its ranks for how long already.
class States {
 public:
  explicit States(bool wanted) : wanted_(wanted) {}

  // Whether tell() would say something new.
  bool differ(const api::RunView& run) const { return wanted_ && state_line(run) != said_; }
  void tell(const api::RunView& run) {
    if (!wanted_) return;
    if (std::string line = state_line(run); line != said_) {
      make_room();
      waiting_.emplace();
      say(line);
      said_ = std::move(line);
    }
    if (run.state == RunState::queued || run.state == RunState::starting)
      waiting_->show(format("still {}", text(run.state)));
  }
  // Before other lines are printed.
  void make_room() {
    if (waiting_) waiting_->wipe();
  }

 private:
  bool wanted_;
  std::string said_;
  std::optional<WaitingLine> waiting_;  // since the last turn
};

}  // namespace

Interrupt::Interrupt(std::string words, int code) : last_words_(std::move(words) + "\n") {
  interrupted = 0;
  last_words = last_words_;
  last_code = code;
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
}
Interrupt::~Interrupt() { ::signal(SIGINT, SIG_DFL); }

// The handler must not come between the words and where it finds them.
void Interrupt::change(std::string words, int code) {
  sigset_t interrupt, before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  ::sigprocmask(SIG_BLOCK, &interrupt, &before);
  last_words_ = std::move(words) + "\n";
  last_words = last_words_;
  last_code = code;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

bool Interrupt::requested() { return interrupted != 0; }

void find_daemon_again(Client& client) {
  ::usleep(200'000);
  auto home = Home::find();
  if (!home) return;
  if (auto found = Client::open(*home)) client = *std::move(found);
}

std::string log_text(const api::LogLine& line, bool with_rank) {
  return with_rank ? format("[{}] {}", line.rank, line.text) : line.text;
}

std::string how_to_come_back(const std::string& run) {
  return format(
      "{0} goes on. `lockstep logs -f {0}` or `lockstep watch {0}` comes back to it, "
      "`lockstep stop {0}` ends it.",
      run);
}

std::string state_line(const api::RunView& run) { return format("{} {}", run.id, state_text(run)); }

void print_lines(const std::vector<api::LogLine>& lines, bool with_rank) {
  for (const api::LogLine& line : lines) put(shown_on(STDOUT_FILENO, log_text(line, with_rank)));
  flush();
}

std::string unfinished_text(const api::LogPage& page, bool with_rank) {
  if (page.unfinished.empty()) return "";
  const api::LogLine& first = page.unfinished.front();
  if (page.unfinished.size() == 1) return log_text(first, with_rank);
  return format("[{}, {} more] {}", first.rank, page.unfinished.size() - 1, first.text);
}

Result<std::optional<api::RunView>> await_end(Client& client, const RunId& id) {
  WaitingLine waiting;
  std::int64_t version = -1;
  while (!Interrupt::requested()) {
    api::RunView run = TRY(patiently(client, [&] { return client.run(id, version, kWait); }));
    if (run.ended) return std::optional(std::move(run));
    version = run.version;
    waiting.show(state_line(run));
  }
  return std::optional<api::RunView>();
}

Result<std::optional<api::RunView>> follow(Client& client, const RunId& id,
                                           const FollowOptions& options) {
  States states(options.states);
  LiveLine live;
  api::LogsQuery query{.after = options.after,
                       .rank = options.rank,
                       .tail = {},
                       .wait_seconds = in_seconds(kWait),
                       .unfinished = 0};
  while (!Interrupt::requested()) {
    api::RunView run = TRY(patiently(client, [&] { return client.run(id); }));
    if (states.differ(run)) live.wipe();
    states.tell(run);
    api::LogPage page = TRY(patiently(client, [&] { return client.logs(id, query); }));
    bool with_rank = rank_count(run.spec) > 1 && !options.rank;
    if (!page.lines.empty()) {
      states.make_room();
      live.wipe();
    }
    print_lines(page.lines, with_rank);
    query.after = page.next;
    query.unfinished = page.unfinished_version;
    live.show(unfinished_text(page, with_rank));
    if (!page.ended) continue;
    live.wipe();
    api::RunView end = TRY(patiently(client, [&] { return client.run(id); }));
    states.tell(end);
    return std::optional(std::move(end));
  }
  return std::optional<api::RunView>();
}

}  // namespace lockstep
