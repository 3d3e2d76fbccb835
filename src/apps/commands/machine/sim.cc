#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "base/os/files.h"
#include "map/grid.h"
#include "sim/replay/job_trace.h"
#include "sim/replay/metrics.h"
#include "sim/replay/pass_backend.h"
#include "sim/replay/replay_policy.h"
#include "sim/replay/schedule.h"
#include "sim/replay/step_backend.h"
#include "text/convert.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kTraceBytesMax = 1u << 30;
constexpr std::string_view kThroughPass = "pass", kThroughStep = "step";
constexpr std::string_view kFirstHalf = "first", kSecondHalf = "second";
constexpr int kHostsMax = 65'536, kDevicesMax = 1'000'000;

struct SimFlags {
  std::string trace;
  std::string policy = "aged20x72-est";
  std::string hosts = "64x8";
  int pod = 16;
  std::string through = "pass";
  std::string half;  // empty: the whole trace
  int jobs = 0;      // 0: all
  std::string schedule;
  std::string svg;
  bool json = false;
};

// The output of `--json`.
struct SimReport {
  std::string trace;
  std::string policy;
  std::string through;
  int hosts = 0, devices = 0, pod = 0;
  std::int64_t jobs = 0, window_s = 0, makespan_s = 0;
  std::int64_t moves = 0, lost_device_s = 0;
  std::int64_t sum_of_starts_s = 0, sum_of_ends_s = 0;
  std::string sha;
  std::vector<sim::PartMetrics> parts;

  static constexpr auto fields() {
    return record<SimReport>(
        field("trace", &SimReport::trace, "the file"),
        field("policy", &SimReport::policy, "its name"),
        field("through", &SimReport::through, "what decided: the pass alone, or the whole step"),
        field("hosts", &SimReport::hosts, "of the cluster"),
        field("devices", &SimReport::devices, "on each host"),
        field("pod", &SimReport::pod, "hosts in each pod"),
        field("jobs", &SimReport::jobs, "that were replayed"),
        field("window_s", &SimReport::window_s, "from the first submission to the last"),
        field("makespan_s", &SimReport::makespan_s, "from the first submission to the last end"),
        field("moves", &SimReport::moves, "of running jobs to other devices"),
        field("lost_device_s", &SimReport::lost_device_s, "device-seconds that the moves cost"),
        field("sum_of_starts_s", &SimReport::sum_of_starts_s, "of all first starts"),
        field("sum_of_ends_s", &SimReport::sum_of_ends_s, "of all ends"),
        field("sha", &SimReport::sha, "equal where every job starts and ends at the same second"),
        field("parts", &SimReport::parts, "whole, first half, second half"));
  }
};

SimReport report_of(const SimFlags& flags, const sim::ReplayCluster& cluster,
                    const sim::JobTrace& trace, const sim::ReplayResult& replayed) {
  SimReport report;
  report.trace = flags.trace;
  report.policy = flags.policy;
  report.through = flags.through;
  report.hosts = cluster.hosts;
  report.devices = cluster.devices;
  report.pod = cluster.pod;
  report.jobs = std::ssize(trace.jobs);
  report.window_s = trace.window().count();
  report.makespan_s = replayed.moments.back().at.count();
  for (const sim::JobOutcome& job : replayed.jobs) report.moves += job.moves;
  report.lost_device_s = replayed.lost.count();
  const sim::ScheduleSums sums = sim::sums_of(replayed);
  report.sum_of_starts_s = sums.starts_s;
  report.sum_of_ends_s = sums.ends_s;
  report.sha = sums.sha;
  report.parts = sim::metrics_of(trace, replayed, cluster.all_devices(), cluster.devices);
  return report;
}

std::string duration(std::optional<double> seconds) {
  return seconds ? text(Duration(std::chrono::seconds(std::llround(*seconds)))) : "-";
}

std::string percent(std::optional<double> share) {
  return share ? format("{:.1f} %", 100 * *share) : "-";
}

// A row of the table, with a cell for each part.
template <class Say>
void add_row(Table& table, std::string name, const SimReport& report, Say say_of) {
  std::vector<std::string> row = {std::move(name)};
  for (const sim::PartMetrics& part : report.parts) row.push_back(say_of(part));
  table.add(std::move(row));
}

template <class Value>
void add_durations(Table& table, std::string name, const SimReport& report,
                   Value sim::PartMetrics::* member) {
  add_row(table, std::move(name), report,
          [&](const sim::PartMetrics& part) { return duration(part.*member); });
}

std::string as_text(const SimReport& report) {
  Table table({"", "whole", "first half", "second half"});
  add_row(table, "jobs", report,
          [](const sim::PartMetrics& part) { return format("{}", part.jobs); });
  add_durations(table, "wait, mean", report, &sim::PartMetrics::mean_wait_s);
  add_durations(table, "wait, median", report, &sim::PartMetrics::median_wait_s);
  add_durations(table, "wait, 95 %", report, &sim::PartMetrics::p95_wait_s);
  add_durations(table, "wait of gangs, mean", report, &sim::PartMetrics::gang_wait_s);
  add_durations(table, "wait of gangs, 95 %", report, &sim::PartMetrics::gang_p95_wait_s);
  add_durations(table, "submission to end, mean", report, &sim::PartMetrics::mean_stay_s);
  add_row(table, "slowdown", report, [](const sim::PartMetrics& part) {
    return part.slowdown ? format("{:.2f}", *part.slowdown) : "-";
  });
  for (const auto& [name, member] :
       {std::pair("devices held", &sim::PartMetrics::utilization),
        std::pair("idle while a job waits", &sim::PartMetrics::idle_waiting),
        std::pair("enough free, but scattered", &sim::PartMetrics::scattered)})
    add_row(table, name, report,
            [&](const sim::PartMetrics& part) { return percent(part.*member); });
  std::string lines =
      format("{} on {} hosts with {} devices, {} a pod: {} job{} in {}\n\n", report.policy,
             report.hosts, report.devices, report.pod, report.jobs, report.jobs == 1 ? "" : "s",
             duration(static_cast<double>(report.makespan_s)));
  lines += table.text(static_cast<std::size_t>(terminal_width()), style_for(STDOUT_FILENO));
  if (report.moves > 0)
    lines += format("\n{} moves, {:.0f} device-hours lost\n", report.moves,
                    static_cast<double>(report.lost_device_s) / 3600);
  return lines + format("\nschedule {}", report.sha);
}

Result<sim::JobTrace> read_trace(const SimFlags& flags) {
  sim::JobTrace trace =
      TRY(sim::parse_job_trace(TRY(read_file(flags.trace, kTraceBytesMax)), flags.trace));
  if (!flags.half.empty())
    trace =
        TRY(sim::half_of(trace, flags.half == kFirstHalf ? sim::Half::first : sim::Half::second));
  const auto most = static_cast<std::size_t>(flags.jobs);
  if (most > 0 && most < trace.jobs.size()) trace.jobs.resize(most);
  return trace;
}

Result<sim::ReplayCluster> read_cluster(const SimFlags& flags) {
  auto grid = map::parse_host_grid(flags.hosts, {.each = kHostsMax, .devices = kDevicesMax});
  if (!grid) return std::move(grid).error().with_context("--hosts");
  return sim::ReplayCluster{grid->hosts, grid->devices, std::min(flags.pod, grid->hosts)};
}

Result<void> write_files(const SimFlags& flags, const sim::ReplayCluster& cluster,
                         const sim::JobTrace& trace, const sim::ReplayResult& replayed) {
  if (!flags.schedule.empty())
    TRY(write_file(flags.schedule, sim::schedule_csv(trace, replayed), 0644));
  if (flags.svg.empty()) return {};
  const std::string title =
      format("{} on {} devices, {} jobs", flags.policy, cluster.all_devices(), trace.jobs.size());
  return write_file(flags.svg, sim::usage_svg(replayed, cluster.all_devices(), title), 0644);
}

std::unique_ptr<sim::ReplayBackend> backend_of(const SimFlags& flags, const map::ClusterMap& map,
                                               const sched::SchedulingPolicy& policy,
                                               std::vector<sched::PendingRun> pending_runs) {
  if (flags.through == kThroughStep)
    return std::make_unique<sim::StepBackend>(map, policy, std::move(pending_runs));
  return std::make_unique<sim::PassBackend>(map, policy, std::move(pending_runs));
}

Result<sim::ReplayResult> replay_with_progress(const SimFlags& flags, const sim::JobTrace& trace,
                                               const sim::ReplayPolicy& policy,
                                               const sim::ReplayCluster& cluster) {
  const map::ClusterMap map = sim::map_of(cluster);
  const auto limits = sim::limits_of(trace, policy.estimates);
  const auto pending_runs = sim::pending_runs_of(trace, limits, cluster.devices);
  TRY(sim::check_all_fit(trace, pending_runs, map));
  const auto backend = backend_of(flags, map, policy.policy, pending_runs);
  WaitingLine line;
  return sim::replay(trace, cluster.all_devices(), *backend, [&](std::size_t ended) {
    line.show(format("{} of {} jobs have ended", ended, trace.jobs.size()));
  });
}

Result<int> simulate(const SimFlags& flags) {
  const sim::ReplayPolicy policy = TRY(sim::parse_policy(flags.policy));
  const sim::ReplayCluster cluster = TRY(read_cluster(flags));
  const sim::JobTrace trace = TRY(read_trace(flags));
  const sim::ReplayResult replayed = TRY(replay_with_progress(flags, trace, policy, cluster));
  const SimReport report = report_of(flags, cluster, trace, replayed);
  print(flags.json ? dump_json(to_json(report), Indent::two) : as_text(report));
  TRY(write_files(flags, cluster, trace, replayed));
  return kDone;
}

CLI::Validator either(std::string_view one, std::string_view other) {
  auto wrong = [one, other](std::string& word) -> std::string {
    if (word == one || word == other) return "";
    return format("expected {} or {}, got '{}'", one, other, word);
  };
  return {wrong, ""};
}

std::string footer() {
  std::string lines = "Policies, and what may stand behind their names:\n";
  for (const sim::PolicyNamePart& word : sim::policy_name_parts())
    lines += format("  {:<12} {}\n", word.name, word.about);
  lines +=
      "\n"
      "A trace is CSV with a header that has one of these, other columns are ignored:\n";
  for (const std::string& form : sim::trace_formats()) lines += "  " + form + "\n";
  return lines +
         "\n"
         "Examples:\n"
         "  lockstep sim --trace jobs.csv --policy easy --hosts 64x8 --pod 16\n"
         "  lockstep sim --trace jobs.csv --policy aged20-est-defrag --svg use.svg --json";
}

}  // namespace
// `lockstep sim --trace FILE --policy NAME`: replays a job trace with a scheduling policy.
void add_sim(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("sim", "Replay a trace of jobs under a policy of scheduling");
  auto flags = std::make_shared<SimFlags>();
  command->add_option("--trace", flags->trace, "CSV: when jobs came, how long and how large")
      ->required()
      ->type_name(kFileValue);
  command
      ->add_option("--policy", flags->policy,
                   "the policy that decides which run starts when and where")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--hosts", flags->hosts, "the cluster: number of hosts x devices of each")
      ->type_name("HxD")
      ->capture_default_str();
  command->add_option("--pod", flags->pod, "hosts in each pod; a gang stays inside one")
      ->type_name("HOSTS")
      ->capture_default_str()
      ->check(whole_number(1, kHostsMax));
  command
      ->add_option("--through", flags->through,
                   "what decides: the pass alone, or the daemon's whole step around it")
      ->type_name("WHAT")
      ->capture_default_str()
      ->check(either(kThroughPass, kThroughStep));
  command
      ->add_option("--half", flags->half,
                   "replay only the jobs of this half of the trace's time, on an empty cluster")
      ->type_name("WHICH")
      ->check(either(kFirstHalf, kSecondHalf));
  command->add_option("--jobs", flags->jobs, "replay only the first N jobs; without: all")
      ->type_name("COUNT")
      ->check(whole_number(1, std::numeric_limits<int>::max()));
  command
      ->add_option("--schedule", flags->schedule, "write when each job started and ended, as CSV")
      ->type_name(kFileValue);
  command->add_option("--svg", flags->svg, "draw how the devices were used over time")
      ->type_name(kFileValue);
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(footer());
  command->callback([&action, flags] { action = [flags] { return simulate(*flags); }; });
}

}  // namespace lockstep::cli
