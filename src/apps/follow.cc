#include "apps/follow.h"

#include <signal.h>
#include <unistd.h>

#include "apps/command.h"

namespace lockstep {
namespace {

volatile sig_atomic_t interrupted = 0;
void on_interrupt(int) { interrupted = 1; }

// A second at most passes between Ctrl-C and the answer to it.
constexpr auto kWait = std::chrono::seconds(1);

}  // namespace

Interrupt::Interrupt() {
  interrupted = 0;
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
}
Interrupt::~Interrupt() { ::signal(SIGINT, SIG_DFL); }
bool Interrupt::requested() { return interrupted != 0; }

void find_daemon_again(Client& client) {
  ::usleep(200'000);
  auto home = Home::find();
  if (!home) return;
  if (auto found = Client::open(*home); found) client = *std::move(found);
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

std::string state_line(const api::RunView& run) {
  std::string line = format("{} {}", run.id, text(run.state));
  if (!run.reason.empty()) line += ": " + run.reason;
  return line;
}

Result<std::optional<api::RunView>> follow(Client& client, const RunId& id,
                                           const FollowOptions& options) {
  Interrupt interrupt;
  LogsQuery query{.after = options.after, .rank = options.rank, .tail = {}, .wait = kWait};
  std::int64_t version = -1;
  std::string said;
  while (!Interrupt::requested()) {
    api::RunView run = TRY(patiently(client, [&] { return client.run(id); }));
    if (run.version != version && options.states && state_line(run) != said) {
      said = state_line(run);
      say(said);
    }
    version = run.version;
    api::LogPage page = TRY(patiently(client, [&] { return client.logs(id, query); }));
    bool with_rank = run.spec.nodes * run.spec.devices > 1 && !options.rank;
    for (const api::LogLine& line : page.lines) print(log_text(line, with_rank));
    query.after = page.next;
    if (!page.ended) continue;
    api::RunView end = TRY(patiently(client, [&] { return client.run(id); }));
    if (options.states && state_line(end) != said) say(state_line(end));
    return std::optional(end);
  }
  return std::optional<api::RunView>();
}

}  // namespace lockstep
