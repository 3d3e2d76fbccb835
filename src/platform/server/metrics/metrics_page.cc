#include "platform/server/metrics/metrics_page.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "platform/server/metrics/process_facts.h"
#include "platform/server/queue_views.h"

namespace lockstep::server {
namespace {

const std::vector<std::string> kMetricsPath = {"metrics"};
// In the place of the state of a host that cannot be used.
constexpr std::string_view kUnavailable = "unavailable";
constexpr std::string_view kHostStates[] = {"open", "avoided", "cordoned", "drained", kUnavailable};
constexpr std::string_view kDeviceStates[] = {"used", "free", kUnavailable};

std::string_view state_of(const api::HostView& host) {
  return host.unavailable.empty() ? model::displayed_host_state(host.state) : kUnavailable;
}

bool takes_runs(const api::HostView& host) {
  return host.unavailable.empty() &&
         (host.state == model::HostState::open || host.state == model::HostState::avoided);
}

// The projects whose runs the caller may read.
class ReadableProjects {
 public:
  explicit ReadableProjects(const std::optional<std::vector<std::string>>& names) {
    if (names) names_.emplace(names->begin(), names->end());
  }
  bool contains(const std::string& project) const { return !names_ || names_->contains(project); }

 private:
  std::optional<std::set<std::string>> names_;  // none: all
};

// Waiting runs that the scheduler may start, and the others.
struct QueueCounts {
  std::int64_t waiting = 0, held = 0;
  std::int64_t devices = 0;         // for which the waiting ones wait
  std::optional<Time> oldest = {};  // since when the first of them waits
};

QueueCounts queue_counts(const model::State& state) {
  QueueCounts counts;
  for (const model::RunId& id : state.open) {
    const model::Run& run = state.runs.at(id);
    if (run.state != model::RunState::queued) continue;
    ++(run.held ? counts.held : counts.waiting);
    if (run.held) continue;
    counts.devices += model::rank_count(run.spec);
    counts.oldest = std::min(run.queued, counts.oldest.value_or(run.queued));
  }
  return counts;
}

}  // namespace

bool MetricsPage::is_for(const net::HttpRequest& request) {
  return request.path == kMetricsPath && (request.method == "GET" || request.method == "HEAD") &&
         !request.has_body;
}

net::HttpResponse MetricsPage::page(const Principal& caller,
                                    const net::HttpRequest& request) const {
  const MetricFormat format = metric_format_of(request.headers.find("Accept").value_or(""));
  MetricText text(format);
  text.gauge("lockstep_build_info", "1, with the version of the daemon");
  text.sample({{"version", from_.context.setup().version}}, std::int64_t{1});
  add_runs(text, caller);
  add_queue(text);
  add_hosts(text);
  add_daemon(text);
  add_storage(text);
  add_requests(text);
  add_process(text);
  return {.status = 200,
          .content_type = std::string(content_type_of(format)),
          .body = text.take(),
          .headers = {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}}};
}

void MetricsPage::add_runs(MetricText& text, const Principal& caller) const {
  const model::State& state = from_.context.state();
  const ReadableProjects readable(from_.context.readable_projects(caller));
  std::map<std::pair<std::string, model::RunState>, std::int64_t> runs;
  std::map<std::string, std::int64_t> devices;
  for (const model::RunId& id : state.open) {
    if (!readable.contains(id.project)) continue;
    const model::Run& run = state.runs.at(id);
    ++runs[{id.project, run.state}];
    const model::Attempt* attempt = model::live_attempt(state, id);
    if (attempt != nullptr && attempt->engine != model::kExternalEngine)
      devices[id.project] += model::rank_count(run.spec);
  }
  text.gauge("lockstep_runs", "runs that have not ended");
  for (const auto& [key, count] : runs)
    text.sample({{"project", key.first}, {"state", name_of(key.second)}}, count);
  text.counter("lockstep_runs_ended", "runs that ended since the start of the daemon");
  for (const auto& [key, count] : from_.ended.counts())
    if (readable.contains(key.first))
      text.sample({{"project", key.first}, {"state", name_of(key.second)}}, count);
  text.gauge("lockstep_project_devices", "devices that runs of the project hold");
  for (const auto& [project, count] : devices) text.sample({{"project", project}}, count);
}

void MetricsPage::add_queue(MetricText& text) const {
  const QueueCounts counts = queue_counts(from_.context.state());
  text.gauge("lockstep_queue_runs", "queued runs of all projects; held ones wait for a user");
  text.sample({{"state", "waiting"}}, counts.waiting);
  text.sample({{"state", "held"}}, counts.held);
  text.gauge("lockstep_queue_devices", "devices for which waiting runs wait");
  text.sample(counts.devices);
  text.gauge("lockstep_queue_oldest_wait_seconds", "the longest wait of a run that waits now");
  text.sample(counts.oldest ? std::max(0.0, in_seconds(from_.context.now() - *counts.oldest)) : 0);
}

void MetricsPage::add_hosts(MetricText& text) const {
  const api::HostList list = host_list(from_.context.state());
  std::map<std::string_view, std::int64_t> hosts, devices;
  for (const api::HostView& host : list.hosts) {
    ++hosts[state_of(host)];
    devices["used"] += host.devices - host.free;
    devices[takes_runs(host) ? "free" : kUnavailable] += host.free;
  }
  text.gauge("lockstep_hosts", "hosts on the map");
  for (const std::string_view state : kHostStates) text.sample({{"state", state}}, hosts[state]);
  text.gauge("lockstep_devices",
             "devices on the map; unavailable: those of hosts without new runs");
  for (const std::string_view state : kDeviceStates)
    text.sample({{"state", state}}, devices[state]);
  text.gauge("lockstep_host_available", "1 if the host takes new runs, else 0");
  for (const api::HostView& host : list.hosts)
    text.sample({{"host", host.id}}, std::int64_t{takes_runs(host)});
  text.gauge("lockstep_host_devices", "devices of the host");
  for (const api::HostView& host : list.hosts)
    text.sample({{"host", host.id}}, std::int64_t{host.devices});
  text.gauge("lockstep_host_devices_used", "devices of the host that runs hold");
  for (const api::HostView& host : list.hosts)
    text.sample({{"host", host.id}}, std::int64_t{host.devices - host.free});
}

void MetricsPage::add_daemon(MetricText& text) const {
  const controller::Controller& controller = from_.context.controller();
  text.gauge("lockstep_engine_ready", "1 once the engine has listed its nodes: runs can start");
  text.sample(std::int64_t{controller.is_ready()});
  text.gauge("lockstep_problems", "failures that `lockstep version` lists");
  text.sample(static_cast<std::int64_t>(from_.context.problems().size()));
  text.gauge("lockstep_loop_lag_seconds",
             "the longest time of the last one to two minutes in which no call was answered");
  text.sample(in_seconds(from_.lag.longest()));
  const controller::CommitCounters& commits = controller.commits();
  text.counter("lockstep_commits", "commits of changes of runs; failed: not stored");
  text.sample({{"result", "stored"}}, commits.stored);
  text.sample({{"result", "failed"}}, commits.refused);
  text.counter("lockstep_commit_seconds", "the time of all commits");
  text.sample(in_seconds(commits.time));
}

void MetricsPage::add_storage(MetricText& text) const {
  insight::Insight& insight = from_.context.insight();
  text.counter("lockstep_log_bytes", "bytes of lines of ranks that were stored");
  text.sample(insight.received().log_bytes);
  text.counter("lockstep_series_points",
               "points of metrics and telemetry that ranks and agents sent");
  text.sample(insight.received().points);
  text.gauge("lockstep_series_bytes", "the sealed size of all points");
  text.sample(insight.points_size().count());
}

void MetricsPage::add_requests(MetricText& text) const {
  std::int64_t heartbeats = 0;
  text.counter("lockstep_http_requests", "answered requests; other: of no route");
  for (const auto& [key, count] : from_.requests.counts()) {
    const auto& [method, route, status] = key;
    text.sample({{"method", method}, {"route", route}, {"status", format("{}", status)}}, count);
    if (route == api::kHeartbeat.path && status == 200) heartbeats += count;
  }
  text.counter("lockstep_heartbeats", "heartbeats of agents that were stored");
  text.sample(heartbeats);
}

void MetricsPage::add_process(MetricText& text) const {
  const ProcessFacts facts = process_facts();
  if (facts.cpu_seconds) {
    text.counter("process_cpu_seconds", "processor time of the daemon");
    text.sample(*facts.cpu_seconds);
  }
  if (facts.resident_bytes) {
    text.gauge("process_resident_memory_bytes", "resident memory of the daemon");
    text.sample(*facts.resident_bytes);
  }
  if (facts.open_files) {
    text.gauge("process_open_fds", "open files and connections of the daemon");
    text.sample(*facts.open_files);
  }
  if (facts.files_max) {
    text.gauge("process_max_fds", "the limit of open files and connections");
    text.sample(*facts.files_max);
  }
  text.gauge("process_start_time_seconds", "when the daemon started, in seconds since 1970");
  text.sample(in_seconds(started_.time_since_epoch()));
}

}  // namespace lockstep::server
