#include <algorithm>
#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/run_display.h"
#include "apps/run/start_estimate.h"
#include "platform/api/json.h"

namespace lockstep::cli {
namespace {

// The rows that are drawn; further ones are counted.
constexpr std::size_t kAllocationsMax = 12, kBeforeMax = 8;

// The output of `--json`.
struct WhyReport {
  std::string run;
  model::RunState state = model::RunState::queued;
  std::string sentence;
  std::optional<std::string> blocker;
  std::optional<Time> expected_start;
  std::optional<Time> latest_start;
  std::int64_t runs_ahead = 0;
  std::vector<api::WaitingView> before;
  std::vector<api::AllocationView> allocations;
  std::vector<api::FindingView> findings;  // that go on

  static constexpr auto fields() {
    return record<WhyReport>(
        field("run", &WhyReport::run, "its id"), field("state", &WhyReport::state, "how far it is"),
        field("sentence", &WhyReport::sentence, "why it stands as it does"),
        field("blocker", &WhyReport::blocker, "the run that must end or start first"),
        field("expected_start", &WhyReport::expected_start,
              "an estimate: when it starts if all run as long as they may and none passes another"),
        field("latest_start", &WhyReport::latest_start,
              "it starts no later, unless something is submitted that may pass it, a time limit is "
              "lengthened, a run is interrupted or a host leaves"),
        field("runs_ahead", &WhyReport::runs_ahead, "how many stand before it"),
        field("before", &WhyReport::before, "those, in order"),
        field("allocations", &WhyReport::allocations,
              "the runs that hold devices, in the order of their ends"),
        field("findings", &WhyReport::findings, "faults that were found and go on"));
  }
};

std::string waiting_sentence(const api::RunView& run, std::int64_t runs_ahead, Time now) {
  std::string sentence = format("{} {}", run.id, run.reason);
  if (run.held) return format("{}; `lockstep release {}` lets it start", sentence, run.id);
  if (!run.expected_start) return sentence;
  sentence += format(". It starts {}", start_text(*run.expected_start, run.latest_start, now));
  if (run.latest_start && *run.latest_start > now)
    sentence += format(" ({})", moment_text(*run.latest_start));
  return run.blocker ? format("{}; {}", sentence, runs_ahead_text(runs_ahead)) : sentence;
}

std::string sentence_of(const api::RunView& run, const api::AllocationView* holds,
                        std::int64_t runs_ahead, Time now) {
  if (run.state == model::RunState::queued) return waiting_sentence(run, runs_ahead, now);
  std::string state = format("{} is {}", run.id, text(run.state));
  if (run.ended)
    return format("{} has ended: {}{}{}", run.id, text(run.state), run.reason.empty() ? "" : ", ",
                  run.reason);
  if (!holds) return run.reason.empty() ? state : format("{}; {}", state, run.reason);
  const std::string where = format("{} on {}", state, joined(holds->hosts, ", "));
  if (!holds->leaves.empty()) return format("{}; it is ending: {}", where, holds->leaves);
  if (run.state == model::RunState::starting && !run.reason.empty())
    return format("{}; {}", where, run.reason);
  const std::string unreachable = unreachable_text(run, now);
  return format("{}; {}by its time-out it ends {}", where,
                unreachable.empty() ? "" : unreachable + "; ", when_text(holds->expected_end, now));
}

WhyReport report_of(const api::RunView& run, const api::QueueView& queue) {
  WhyReport report;
  report.run = run.id;
  report.state = run.state;
  report.blocker = run.blocker;
  report.expected_start = run.expected_start;
  report.latest_start = run.latest_start;
  const auto position = std::ranges::find(queue.waiting, run.id, &api::WaitingView::run);
  if (position != queue.waiting.end()) report.before.assign(queue.waiting.begin(), position);
  report.runs_ahead = std::ssize(report.before);
  const auto holds = std::ranges::find(queue.allocations, run.id, &api::AllocationView::run);
  report.sentence = sentence_of(run, holds == queue.allocations.end() ? nullptr : &*holds,
                                report.runs_ahead, queue.time);
  report.allocations = queue.allocations;
  return report;
}

TimelineRow row_of(const api::AllocationView& allocation, const WhyReport& report, Time now) {
  std::string remark = format("ends {}", when_text(allocation.expected_end, now));
  if (!allocation.leaves.empty()) remark += ", " + allocation.leaves;
  if (report.blocker == allocation.run) remark += ", the blocker";
  return {.name = allocation.run,
          .from = now,
          .until = std::max(now, allocation.expected_end),
          .remark = std::move(remark)};
}

TimelineRow row_of(const api::WaitingView& waiting, Time now) {
  if (!waiting.expected_start)
    return {
        .name = waiting.run, .from = {}, .until = {}, .remark = "cannot start now", .waits = true};
  const Time start = std::max(now, *waiting.expected_start);
  return {.name = waiting.run,
          .from = start,
          .until = start + waiting.timeout,
          .remark = "starts " + start_text(start, std::nullopt, now),
          .waits = true};
}

// The runs that end before it starts, those that wait before it, and the run itself.
std::string timeline_of(const WhyReport& report, Time now) {
  std::vector<TimelineRow> rows;
  for (const api::AllocationView& allocation : report.allocations) {
    const bool matters = report.blocker == allocation.run || !report.expected_start ||
                         allocation.expected_end <= *report.expected_start;
    if (matters && rows.size() < kAllocationsMax) rows.push_back(row_of(allocation, report, now));
  }
  for (std::size_t i = 0; i < std::min(kBeforeMax, report.before.size()); ++i)
    rows.push_back(row_of(report.before[i], now));
  if (report.before.size() > kBeforeMax)
    rows.push_back({.name = format("and {} more", report.before.size() - kBeforeMax),
                    .from = {},
                    .until = {},
                    .remark = {}});
  rows.push_back({.name = report.run,
                  .from = report.expected_start
                              ? std::optional(std::max(now, *report.expected_start))
                              : std::nullopt,
                  .until = std::nullopt,
                  .remark = report.expected_start
                                ? "starts " + start_text(*report.expected_start, std::nullopt, now)
                                : std::string("no start is known"),
                  .waits = true});
  return timeline_text(rows, now, terminal_width());
}

Result<int> why(const std::string& words, bool json) {
  const model::RunId id = TRY(run_argument(words));
  client::Client client = TRY(connect_to_daemon());
  const api::RunView run = TRY(client.call(api::kRun, {.path = id}));
  const api::QueueView queue = TRY(client.call(api::kQueue, {.query = {.limit = 10'000}}));
  WhyReport report = report_of(run, queue);
  report.findings =
      TRY(client.call(api::kRunFindings, {.path = id, .query = {.open = true}})).findings;
  if (json) {
    print(dump_json(to_json(report), Indent::two));
    return kDone;
  }
  print(report.sentence);
  for (const api::FindingView& each : report.findings) print(finding_text(each));
  if (run.state == model::RunState::queued && !run.held && !report.allocations.empty())
    print("\n" + timeline_of(report, queue.time));
  return kDone;
}

}  // namespace

// `lockstep why RUN`: the reason, and a timeline of the ends and starts of runs.
void add_why(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("why", "Say why a run waits, for which run and until when");
  auto run = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  add_run_argument(*command, *run);
  command->add_flag("--json", *json, "print JSON");
  command->footer("Example:\n  lockstep why demo/42");
  command->callback([&action, run, json] { action = [run, json] { return why(*run, *json); }; });
}

}  // namespace lockstep::cli
