#include "apps/run/run_display.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <unistd.h>

#include "apps/budget/budget_text.h"
#include "apps/cli/terminal.h"
#include "apps/run/start_estimate.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "text/display/table.h"
#include "text/shell_words.h"

namespace lockstep::cli {
namespace {

constexpr auto kNoticeable = std::chrono::minutes(1);
constexpr std::size_t kEventsShown = 20;
constexpr std::size_t kNameWidth = 40;
constexpr std::size_t kLateShown = 8;

std::string in_whole_seconds(Duration duration) {
  return text(Duration(std::chrono::floor<std::chrono::seconds>(duration)));
}

std::string stall_text(const api::RunView& run) {
  auto silent = without_progress(run, SystemClock().now());
  return silent ? format(", none since {}", in_whole_seconds(*silent)) : "";
}

// Shortens the name, which may have 200 bytes.
std::string short_name(const std::string& name) {
  return display_width(name) > kNameWidth ? fit_to_width(name, kNameWidth) : name;
}

// 0: another launcher has seen the signal.
std::string killed_text(int signal) {
  return signal == 0 ? "killed" : format("killed by signal {}", signal);
}

// "rank 2 is stopped (SIGSTOP or a debugger) for 12s".
std::string late_rank_text(const api::LateRank& late, Time now) {
  const std::string time =
      late.since ? in_whole_seconds(std::max(Duration(0), now - *late.since)) : "";
  const std::string lasting = time.empty() ? "" : " for " + time;
  if (late.state == model::RankState::exited)
    return format("rank {} exited with code {} before the others", late.rank, late.code);
  if (late.state == model::RankState::killed)
    return format("rank {} was {}", late.rank, killed_text(late.code));
  if (late.activity == model::Activity::stopped)
    return format("rank {} is stopped (SIGSTOP or a debugger){}", late.rank, lasting);
  if (late.activity == model::Activity::blocked)
    return format("rank {} is blocked in the kernel (a disk, a network file system or a driver){}",
                  late.rank, lasting);
  return format("rank {} has made no progress{}", late.rank, lasting);
}

// "node 3 on host b has been unreachable for 2m; its ranks may go on".
std::string unreachable_node_text(const api::UnreachableNode& node, Time now) {
  return format("node {} on host {} has been unreachable for {}; its ranks may go on", node.node,
                node.host, in_whole_seconds(std::max(Duration(0), now - node.since)));
}

// The reason why the run waits or ended. For a running run: the node that is unreachable, the rank
// that the others wait for, or that it seems to make no progress.
std::string reason_of(const api::RunView& run, Time now) {
  if (!run.unreachable.empty()) return unreachable_text(run, now);
  const auto silent = without_progress(run, now);
  const auto silence = silent ? format("no progress for {}", in_whole_seconds(*silent)) : "";
  if (run.late.empty()) return silent ? silence : run.reason;
  auto words = late_rank_text(run.late.front(), now);
  if (run.late.size() > 1) words += format(", and {} more", run.late.size() - 1);
  return silent ? words + "; " + silence : words;
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

std::string seconds(double count) { return text(from_seconds(count)); }

std::string end_of(const api::RankView& rank) {
  if (rank.state == model::RankState::exited) return format("exited with code {}", rank.code);
  if (rank.state == model::RankState::killed) return killed_text(rank.code);
  return std::string(text(rank.state));
}

// The newest events; --json has all.
std::string event_lines(const std::vector<model::AuditEntry>& events) {
  const std::size_t left_out = events.size() - std::min(events.size(), kEventsShown);
  std::string lines;
  if (left_out > 0) lines += format("event       {} earlier ones: --json\n", left_out);
  for (auto event = events.begin() + static_cast<std::ptrdiff_t>(left_out); event != events.end();
       ++event)
    lines += format("event       {} {}{}\n", moment_text(event->time), event->what,
                    event->by.empty() ? "" : " by " + event->by);
  return lines;
}

// If a host is slow, usually several of its ranks are late.
std::string late_lines(const std::vector<api::LateRank>& late) {
  const Time now = SystemClock().now();
  std::string lines;
  for (std::size_t i = 0; i < std::min(late.size(), kLateShown); ++i)
    lines += format("waits for   {} on host {}\n", late_rank_text(late[i], now), late[i].host);
  if (late.size() > kLateShown)
    lines += format("waits for   {} more: --json\n", late.size() - kLateShown);
  return lines;
}

std::string unreachable_lines(const std::vector<api::UnreachableNode>& nodes) {
  const Time now = SystemClock().now();
  std::string lines;
  for (std::size_t i = 0; i < std::min(nodes.size(), kLateShown); ++i)
    lines += format("unreachable {}\n", unreachable_node_text(nodes[i], now));
  if (nodes.size() > kLateShown)
    lines += format("unreachable {} more: --json\n", nodes.size() - kLateShown);
  return lines;
}

std::string rank_line(const api::RankView& rank) {
  std::string line = format("\n    rank {}  process {}  {}", rank.rank, rank.pid, end_of(rank));
  if (rank.step >= 0) line += format(", step {}", rank.step);
  if (rank.stalled_since)
    line += format(", no progress since {}",
                   text(std::chrono::floor<std::chrono::seconds>(*rank.stalled_since)));
  if (rank.restarts > 0)
    line += format(", started again {} time{}", rank.restarts, rank.restarts == 1 ? "" : "s");
  if (rank.state != model::RankState::running) return line;
  const bool odd =
      rank.activity == model::Activity::stopped || rank.activity == model::Activity::blocked;
  if (rank.stalled_since || odd) line += format(", its process is {}", text(rank.activity));
  if (odd && rank.activity_since)
    line +=
        format(" since {}", text(std::chrono::floor<std::chrono::seconds>(*rank.activity_since)));
  return line;
}

std::string error_lines(const api::AttemptView& attempt) {
  if (!attempt.first_error) return "";
  std::string lines = first_error_line(*attempt.first_error);
  for (const std::string& line : attempt.first_error->lines)
    lines += "\n  " + escape_controls(line);
  return lines + "\n";
}

std::string note_lines(const std::string& note) {
  std::string lines;
  for (std::size_t start = 0; start < note.size();) {
    const std::size_t end = std::min(note.find('\n', start), note.size());
    lines += format("note        {}\n", note.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

std::string attempt_lines(const api::AttemptView& attempt) {
  std::string lines = format("attempt {}   {}", attempt.epoch, text(attempt.state));
  if (attempt.cause != model::Cause::none) lines += format(", {}", text(attempt.cause));
  if (!attempt.reason.empty()) lines += ": " + attempt.reason;
  if (attempt.first_error) lines += "\n  " + first_error_line(*attempt.first_error);
  for (const api::NodeView& node : attempt.nodes) {
    lines += format("\n  node {} on {}: {} (agent {})", node.index,
                    node.host.empty() ? "-" : node.host, text(node.state), node.agent_pid);
    if (!node.message.empty()) lines += ": " + node.message;
    if (node.given_up_since)
      lines += format("; given up at {}: its host does not answer",
                      text(std::chrono::floor<std::chrono::seconds>(*node.given_up_since)));
    if (!node.nccl_network.empty()) lines += "\n    network  " + node.nccl_network;
    for (const api::RankView& rank : node.ranks) lines += rank_line(rank);
  }
  return lines + "\n";
}

}  // namespace

std::string first_error_line(const api::RankError& error) {
  return format("rank {} failed first{}: {}", error.rank,
                error.host.empty() ? "" : " on host " + error.host, escape_controls(error.summary));
}

std::string failure_lines(const api::RunView& run) {
  const bool is_over = !run.attempts.empty() && run.state == model::RunState::failed;
  return is_over ? error_lines(run.attempts.back()) : "";
}

std::string fit_to_terminal(const Table& table) {
  const bool narrow = is_terminal(STDOUT_FILENO);
  std::string words =
      table.text(narrow ? static_cast<std::size_t>(terminal_width()) : 0, style_for(STDOUT_FILENO));
  while (words.ends_with('\n')) words.pop_back();
  return words;
}

std::string unreachable_text(const api::RunView& run, Time now) {
  if (run.unreachable.empty()) return "";
  auto words = unreachable_node_text(run.unreachable.front(), now);
  if (run.unreachable.size() == 1) return words;
  return format("{} ({} nodes are unreachable)", words, run.unreachable.size());
}

std::optional<Duration> without_progress(const api::RunView& run, Time now) {
  if (run.state != model::RunState::running || !run.progress) return std::nullopt;
  // The progress of an earlier attempt does not count for this one.
  const Time since =
      std::max(run.progress->time,
               run.attempts.empty() ? Time{} : run.attempts.back().started.value_or(now));
  return now - since < kNoticeable ? std::nullopt : std::optional<Duration>(now - since);
}

std::string state_text(const api::RunView& run) {
  std::string state(text(run.state));
  if (run.reason.empty()) return state;
  const bool is_over =
      !run.attempts.empty() && run.attempts.back().cause != model::Cause::none && !run.ended;
  // The reason of the previous attempt's end.
  const bool again = run.state == model::RunState::starting && run.attempts.size() > 1 && !is_over;
  if (again) return format("{} again ({})", state, run.reason);
  return format("{}: {}", state, run.reason);
}

std::string size_text(const model::RunSpec& spec) {
  const auto rest = spec.remainder == 0 ? "" : format(" and one with {}", spec.remainder);
  return format("{} node{} x {} device{}{}", spec.nodes, spec.nodes == 1 ? "" : "s", spec.devices,
                spec.devices == 1 ? "" : "s", rest);
}

std::string trouble_lines(const std::vector<std::string>& problems) {
  std::string lines;
  for (const std::string& trouble : problems)
    lines += format("the daemon has a problem: {}\n", trouble);
  return lines;
}

namespace {

// By the value of a metric, or by the field of a query.
std::string sorted_value(const api::RunList& list, std::size_t i) {
  if (i < list.values.size()) return human_number(list.values[i]);
  return i < list.sorted.size() && !list.sorted[i].empty() ? short_name(list.sorted[i]) : "-";
}

}  // namespace

std::string runs_table(const api::RunList& list, const std::optional<std::string>& sort) {
  Table table({"RUN", "NAME", "STATE", "NODES", "DEVICES", "STEP",
               sort ? short_name(*sort) : std::string("LOSS"), "RUNNING", "SUBMITTED", "REASON"});
  Time now = SystemClock().now();
  for (std::size_t i = 0; i < list.runs.size(); ++i) {
    const api::RunView& run = list.runs[i];
    table.add({run.id, short_name(run.name), std::string(text(run.state)),
               format("{}", run.spec.nodes), format("{}", run.spec.devices), step_of(run),
               sort ? sorted_value(list, i) : latest(run, "loss"),
               seconds(std::floor(run.running_seconds)), age(run.submitted, now),
               reason_of(run, now)});
  }
  return fit_to_terminal(table);
}

// Lockstep decides nothing about an external run.
std::string running_lines(const api::RunView& run) {
  if (!run.launcher.empty())
    return format("launcher    {}\nrunning     {}\n", run.launcher, seconds(run.running_seconds));
  return format("running     {} of at most {}\n", seconds(run.running_seconds),
                text(run.time_limit.value_or(run.spec.timeout.value_or(Duration(0)))));
}

std::string cost_line(const api::RunView& run) {
  if (!run.launcher.empty()) return "";
  const auto most = model::is_final(run.state)
                        ? ""
                        : format(", {} at its time limit", minutes_text(run.cost.at_limit_minutes));
  return format("cost        {} device-minutes{}\n", minutes_text(run.cost.so_far_minutes), most);
}

std::string retry_lines(const api::RunView& run) {
  if (!run.launcher.empty()) return "";
  std::string lines = format("retries     {} of {} losses, {} of {} failures\n", run.losses,
                             run.spec.rank_loss_retries, run.user_exits, run.spec.retries);
  if (run.moves > 0) lines += format("moves       {} of {}\n", run.moves, model::kMovesMax);
  return lines;
}

std::string checkpoint_lines(const api::RunView& run) {
  if (!run.launcher.empty())
    return run.checkpoints.empty() ? ""
                                   : format("checkpoints {}, the newest is {}\n",
                                            run.checkpoints.size(), run.checkpoints.back().path);
  const bool on_hosts = !run.checkpoint_folder.starts_with('/');
  return format("checkpoints {} in {}{}\n", run.checkpoints.size(), run.checkpoint_folder,
                on_hosts ? " below the host service's folder on each host" : "");
}

std::string finding_text(const api::FindingView& finding) {
  std::string where;
  if (finding.rank) where += format("rank {}, ", *finding.rank);
  if (finding.device) where += format("device {}, ", *finding.device);
  if (!finding.host.empty()) where += format("host {}, ", finding.host);
  if (where.empty()) where = "all ranks, ";
  return format("{} since {}: {}: {}", name_of(finding.kind), moment_text(finding.since),
                where.substr(0, where.size() - 2), finding.text);
}

std::string run_details(const api::RunView& run) {
  std::string lines = failure_lines(run) + trouble_lines(run.problems) +
                      format("{}   {}   {}", run.id, run.name, state_text(run));
  lines +=
      format("\ncommand     {}\nfolder      {}\nsize        {}\n", shell_words(run.spec.command),
             run.spec.working_folder + (run.spec.upload ? ", uploaded" : ""), size_text(run.spec));
  if (const auto environment = model::software_environment(run.spec))
    lines += format("environment {}\n", text(*environment));
  lines += running_lines(run);
  lines += cost_line(run);
  lines += format("submitted   {} by {}\n",
                  text(std::chrono::floor<std::chrono::seconds>(run.submitted)), run.origin.user);
  if (!run.origin.git_commit.empty())
    lines += format("code        {}{}\n", run.origin.git_commit.substr(0, 12),
                    run.origin.git_dirty ? ", with uncommitted changes" : "");
  if (run.origin.forked_from) lines += format("forked from {}\n", *run.origin.forked_from);
  for (const auto& [key, value] : run.tags) lines += format("tag         {}={}\n", key, value);
  lines += note_lines(run.note);
  if (run.spec.run_class != model::RunClass::normal || run.priority != 0)
    lines += format("class       {}, priority {}\n", name_of(run.spec.run_class), run.priority);
  if (run.share != 100)
    lines +=
        format("share       its time limit counts {} % in the queue, by what its project uses\n",
               run.share);
  if (run.expected_start)
    lines += format("starts      {}{}\n",
                    start_text(*run.expected_start, run.latest_start, SystemClock().now()),
                    run.blocker ? format(", behind {}", *run.blocker) : "");
  lines += unreachable_lines(run.unreachable);
  lines += late_lines(run.late);
  lines += retry_lines(run);
  if (run.progress) lines += format("step        {}{}\n", step_of(run), stall_text(run));
  for (const auto& [name, value] : run.latest)
    lines += format("metric      {} {}\n", name, human_number(value));
  lines += checkpoint_lines(run);
  lines += event_lines(run.events);
  for (const api::AttemptView& attempt : run.attempts) lines += attempt_lines(attempt);
  lines.pop_back();
  return lines;
}

void print_notices(const std::vector<std::string>& notices) {
  for (const std::string& notice : notices) print_to_stderr("lockstep: " + notice);
}

}  // namespace lockstep::cli
