#include <cmath>
#include <memory>

#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/follow.h"
#include "apps/run/run_display.h"
#include "base/clock.h"
#include "text/display/plot.h"

namespace lockstep::cli {
namespace {

// The interval between lines if the output is no terminal and cannot be redrawn.
constexpr auto kLineEvery = std::chrono::seconds(10);
constexpr int kPercentWidth = 10;  // " 100% " behind the bar, and a margin
constexpr int kBarMin = 10;
constexpr auto kPoll = std::chrono::milliseconds(500);

std::string metric(const api::RunView& run, const std::string& name, const std::string& shown_as,
                   int digits) {
  auto found = run.latest.find(name);
  return found == run.latest.end() ? "" : format("  {} {:.{}f}", shown_as, found->second, digits);
}

// Estimates the time left from the pace of the newest attempt, which the remaining steps will have.
class TimeLeftEstimator {
 public:
  std::string time_left(const api::RunView& run) {
    auto now = std::chrono::steady_clock::now();
    std::int64_t epoch = run.attempts.empty() ? 0 : run.attempts.back().epoch;
    if (epoch != epoch_ || run.progress->step < first_step_) {
      epoch_ = epoch;
      first_step_ = run.progress->step;
      since_ = now;
    }
    std::int64_t done = run.progress->step - first_step_;
    if (done < 5 || run.progress->steps == 0) return "";
    auto left = (now - since_) / done * (run.progress->steps - run.progress->step);
    return "  " +
           text(std::chrono::duration_cast<Duration>(
               std::chrono::ceil<std::chrono::seconds>(left))) +
           " left";
  }

 private:
  std::int64_t epoch_ = -1;
  std::int64_t first_step_ = 0;
  std::chrono::steady_clock::time_point since_;
};

// A line that is redrawn must not wrap.
std::string shortened(const std::string& line, int width) {
  const auto columns = static_cast<std::size_t>(std::max(1, width - 1));
  return display_width(line) > columns ? fit_to_width(line, columns) : line;
}

std::string status(const api::RunView& run, TimeLeftEstimator& pace, int width) {
  if (!run.progress) return state_line(run);
  std::string figures = format("step {}", run.progress->step);
  if (run.progress->steps > 0) figures += format("/{}", run.progress->steps);
  figures += metric(run, "loss", "loss", 3) + metric(run, "tokens_per_second", "tokens/s", 0);
  auto silent = without_progress(run, SystemClock().now());
  figures += silent ? format("  no progress for {}",
                             text(std::chrono::floor<std::chrono::seconds>(*silent)))
                    : pace.time_left(run);
  const int bar_width = width - static_cast<int>(figures.size()) - kPercentWidth;
  if (run.progress->steps == 0 || bar_width < kBarMin) return shortened(figures, width);
  double share = static_cast<double>(run.progress->step) / static_cast<double>(run.progress->steps);
  return progress_bar(share, bar_width) + " " + figures;
}

// Prints the changes since the last version: state changes and new attempts, each once.
class StateChangePrinter {
 public:
  void report(const api::RunView& run, bool over_bar) {
    std::string line = state_line(run);
    if (line == last_reported_) return;
    last_reported_ = line;
    print((over_bar ? "\r\033[K" : "") + line);
  }

 private:
  std::string last_reported_;
};

Result<int> watch(const std::string& words) {
  model::RunId id = TRY(run_argument(words));
  client::Client client = TRY(connect_to_daemon());
  const auto farewell = "\n" + reattach_hint(words);
  InterruptHandler interrupt(farewell);
  bool live = is_terminal(STDOUT_FILENO);
  TimeLeftEstimator pace;
  StateChangePrinter turns;
  Deadline next_line = Deadline::after(Duration(0));
  while (!InterruptHandler::requested()) {
    api::RunView run =
        TRY(retry_while_away(client, [&] { return client.call(api::kRun, {.path = id}); }));
    turns.report(run, live);
    if (run.ended) return exit_code_for(run);
    if (run.progress && run.state == model::RunState::running && (live || next_line.passed())) {
      std::string line = status(run, pace, terminal_width());
      if (live)
        std::fputs(("\r\033[K" + line).c_str(), stdout), std::fflush(stdout);
      else
        print(line);
      next_line = Deadline::after(kLineEvery);
    }
    TRY(retry_while_away(client, [&] {
      return client.call(api::kRun, {.path = id, .query = {run.version, in_seconds(kPoll)}});
    }));
  }
  print(farewell);
  return kDone;
}

}  // namespace

// `lockstep watch RUN`: a progress bar with loss, speed and time left, until the run ends.
void add_watch(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("watch", "Watch a run's progress: step, loss, tokens/s, time left");
  auto run = std::make_shared<std::string>();
  add_run_argument(*command, *run);
  command->footer("Example:\n  lockstep watch demo/42");
  command->callback([&action, run] { action = [run] { return watch(*run); }; });
}

}  // namespace lockstep::cli
