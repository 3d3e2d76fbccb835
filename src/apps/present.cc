#include "apps/present.h"

#include <algorithm>
#include <cmath>

#include <unistd.h>

#include "apps/command.h"
#include "base/clock.h"
#include "text/table.h"

namespace lockstep {
namespace {

std::string in_terminal(const Table& table) {
  bool terminal = is_terminal(STDOUT_FILENO);
  std::string words = table.text(terminal ? static_cast<std::size_t>(terminal_width()) : 0,
                                 terminal ? Style::colour : Style::plain);
  while (words.ends_with('\n')) words.pop_back();
  return words;
}

std::string step_of(const api::RunView& run) {
  if (!run.progress) return "-";
  return run.progress->steps > 0 ? format("{}/{}", run.progress->step, run.progress->steps)
                                 : format("{}", run.progress->step);
}

std::string latest(const api::RunView& run, const std::string& name) {
  auto found = run.latest.find(name);
  return found == run.latest.end() ? "-" : human_number(found->second);
}

std::string seconds(double count) {
  return text(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(count)));
}

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : " ") + word;
  return all;
}

std::string end_of(const api::RankView& rank) {
  if (rank.state == RankState::exited) return format("exited with code {}", rank.code);
  if (rank.state == RankState::killed) return format("killed by signal {}", rank.code);
  return std::string(text(rank.state));
}

std::string attempt_lines(const api::AttemptView& attempt) {
  std::string lines = format("attempt {}   {}", attempt.epoch, text(attempt.state));
  if (attempt.cause != Cause::none) lines += format(", {}", text(attempt.cause));
  if (!attempt.reason.empty()) lines += ": " + attempt.reason;
  for (const api::NodeView& node : attempt.nodes) {
    lines += format("\n  node {} on {}: {} (agent {})", node.index, node.host, text(node.state),
                    node.agent_pid);
    if (!node.message.empty()) lines += ": " + node.message;
    for (const api::RankView& rank : node.ranks)
      lines += format("\n    rank {}  process {}  {}", rank.rank, rank.pid, end_of(rank));
  }
  return lines + "\n";
}

}  // namespace

std::string size_text(const RunSpec& spec) {
  return format("{} node{} x {} device{}", spec.nodes, spec.nodes == 1 ? "" : "s", spec.devices,
                spec.devices == 1 ? "" : "s");
}

std::string runs_table(const std::vector<api::RunView>& runs) {
  Table table({"RUN", "NAME", "STATE", "NODES", "DEVICES", "STEP", "LOSS", "RUNNING", "SUBMITTED",
               "REASON"});
  Time now = SystemClock().now();
  for (const api::RunView& run : runs)
    table.add({run.id, run.name, std::string(text(run.state)), format("{}", run.spec.nodes),
               format("{}", run.spec.devices), step_of(run), latest(run, "loss"),
               seconds(std::floor(run.running_seconds)), age(run.submitted, now), run.reason});
  return in_terminal(table);
}

std::string run_details(const api::RunView& run) {
  std::string lines = format("{}   {}   {}", run.id, run.name, text(run.state));
  if (!run.reason.empty()) lines += ": " + run.reason;
  lines += format("\ncommand     {}\nfolder      {}\nsize        {}\n", joined(run.spec.command),
                  run.spec.working_folder, size_text(run.spec));
  lines += format("running     {} of at most {}\n", seconds(run.running_seconds),
                  text(run.spec.timeout));
  lines += format("submitted   {} by {}\n",
                  text(std::chrono::floor<std::chrono::seconds>(run.submitted)), run.origin.user);
  if (!run.origin.git_commit.empty())
    lines += format("code        {}{}\n", run.origin.git_commit.substr(0, 12),
                    run.origin.git_dirty ? ", with uncommitted changes" : "");
  if (run.progress) lines += format("step        {}\n", step_of(run));
  for (const auto& [name, value] : run.latest)
    lines += format("metric      {} {}\n", name, human_number(value));
  lines += format("checkpoints {} in {}\n", run.checkpoints.size(), run.checkpoint_folder);
  for (const api::AttemptView& attempt : run.attempts) lines += attempt_lines(attempt);
  lines.pop_back();
  return lines;
}

std::string metrics_table(const std::vector<api::Series>& series) {
  Table table({"METRIC", "RANK", "POINTS", "FIRST", "LAST", "MIN", "MAX", "LAST STEP"});
  for (const api::Series& one : series) {
    if (one.points.empty()) continue;
    std::vector<double> numbers;
    for (const api::Point& point : one.points)
      if (!std::isnan(point.value)) numbers.push_back(point.value);
    auto [least, most] = std::ranges::minmax_element(numbers);
    table.add({one.name, format("{}", one.rank), format("{}", one.points.size()),
               human_number(one.points.front().value), human_number(one.points.back().value),
               numbers.empty() ? "-" : human_number(*least),
               numbers.empty() ? "-" : human_number(*most), format("{}", one.points.back().step)});
  }
  return in_terminal(table);
}

}  // namespace lockstep
