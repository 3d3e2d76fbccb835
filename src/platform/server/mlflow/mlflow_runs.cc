// The calls that make and change runs.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/hash.h"
#include "base/log.h"
#include "net/crypto.h"
#include "platform/server/mlflow/mlflow_server.h"
#include "platform/server/mlflow/run_name.h"

namespace lockstep::mlflow {
namespace {

constexpr std::string_view kLauncher = "an MLflow client";
// The rank of a client's run, and the agent and node of which its reports are.
constexpr int kClientNode = 999'999'999;  // beside those of agents
constexpr std::string_view kClientAgent = "mlflow";
constexpr Duration kReportInterval = std::chrono::seconds(10);
// A client that has not called for so long is gone: then its run ends as that of a silent agent.
constexpr Duration kClientSilentAfter = std::chrono::hours(24);
constexpr std::size_t kBatchesKept = 64;  // of a run: for repeated calls
constexpr std::size_t kMetricsMax = 1000, kParamsMax = 100, kTagsMax = 100;
constexpr std::size_t kParamBytes = 6000, kTagBytes = 8000, kKeyBytes = 250;
constexpr std::size_t kRunNameBytes = 64;
constexpr std::string_view kNameTag = "mlflow.runName";
constexpr std::string_view kParentTag = "mlflow.parentRunId";
constexpr std::int64_t kValuesMax = 5000;  // parameters and tags of a run

std::string tag_of(const std::vector<KeyValue>& tags, std::string_view key) {
  const auto found = std::ranges::find(tags, key, &KeyValue::key);
  return found == tags.end() ? "" : found->value;
}

// A name that Lockstep takes; MLflow's may have any characters.
std::string lockstep_name(const std::string& name) {
  std::string plain = name.substr(0, kRunNameBytes);
  for (char& letter : plain)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '_' && letter != '.')
      letter = '-';
  return plain;
}

Result<void> check_value(std::string_view what, const KeyValue& value, std::size_t most) {
  if (value.key.empty() || value.key.size() > kKeyBytes)
    return Error{Code::invalid, format("{}: a name has 1 to {} bytes", what, kKeyBytes)};
  if (value.value.size() <= most) return {};
  return Error{Code::invalid, format("{} {}: has {} bytes, of which at most {} are allowed", what,
                                     value.key, value.value.size(), most)};
}

Result<void> check_run_name(const std::string& name) {
  if (name.size() <= kTagBytes) return {};
  return Error{Code::invalid, format("run_name: has {} bytes, of which at most {} are allowed",
                                     name.size(), kTagBytes)};
}

bool is_control(char letter) {
  return static_cast<unsigned char>(letter) < 0x20 || letter == '\x7f';
}

Result<void> check_batch(const LogBatch& batch) {
  if (batch.metrics.size() > kMetricsMax || batch.params.size() > kParamsMax ||
      batch.tags.size() > kTagsMax)
    return Error{Code::invalid, format("a batch has at most {} metrics, {} params and {} tags",
                                       kMetricsMax, kParamsMax, kTagsMax)};
  for (std::size_t i = 0; i < batch.metrics.size(); ++i) {
    const Metric& metric = batch.metrics[i];
    const auto limit = std::numeric_limits<std::int64_t>::max() / 1000;
    if (metric.key.empty() || metric.key.size() > kKeyBytes)
      return Error{Code::invalid, format("metrics[{}]: a name has 1 to {} bytes", i, kKeyBytes)};
    if (std::ranges::any_of(metric.key, is_control))
      return Error{Code::invalid, format("metrics[{}]: a name has no control characters", i)};
    if (metric.timestamp.value > limit || metric.timestamp.value < -limit)
      return Error{Code::invalid, format("metrics[{}]: timestamp: is not in milliseconds", i)};
  }
  for (const KeyValue& param : batch.params) TRY(check_value("param", param, kParamBytes));
  for (const KeyValue& tag : batch.tags) TRY(check_value("tag", tag, kTagBytes));
  return {};
}

Result<std::string> checked_status(const std::string& status) {
  for (const std::string_view known : {"RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"})
    if (status == known) return status;
  return Error{Code::invalid,
               format("status: '{}' is none of RUNNING, SCHEDULED, FINISHED, FAILED, "
                      "KILLED",
                      status)};
}

bool is_end(const std::string& status) {
  return !status.empty() && status != "RUNNING" && status != "SCHEDULED";
}

// Points of one step and time in one item, as long as no metric is in it twice.
std::vector<spool::TelemetryItem> items_of(const std::vector<Metric>& metrics,
                                           std::int64_t sequence) {
  std::vector<spool::TelemetryItem> items;
  for (const Metric& metric : metrics) {
    const Time time{std::chrono::milliseconds(metric.timestamp.value)};
    if (items.empty() || items.back().step != metric.step.value || items.back().time != time ||
        items.back().values.contains(metric.key))
      items.push_back({.sequence = ++sequence,
                       .kind = spool::TelemetryKind::metrics,
                       .step = metric.step.value,
                       .time = time});
    items.back().values[metric.key] = metric.value;
  }
  return items;
}

}  // namespace

// A run of an experiment is in the experiment's project, also if that is the shared one.
Result<std::string> MlflowServer::project_of_run(const Caller& caller,
                                                 const ExperimentRow& experiment) const {
  if (experiment.id == kDefaultExperiment)
    return identity::project_of_submission(setup_.directory, caller.bearer, experiment.project);
  TRY(access_.check(caller, identity::Action::submit_run, experiment.project));
  return experiment.project;
}

MlflowServer::Answer MlflowServer::create_run(const Call& call) {
  const auto request = TRY(read_message<CreateRun>(call.body));
  TRY(check_run_name(request.run_name));
  TRY(check_batch({.tags = request.tags}));
  const ExperimentRow experiment = TRY(access_.experiment_of(call.caller, request.experiment_id));
  if (experiment.deleted)
    return Error{Code::invalid, format("the experiment {} is deleted", experiment.name)};
  if (takes_own_run(call.caller, request)) return take_own_run(call, request, experiment);
  const identity::Bearer& bearer = call.caller.bearer;
  const Time now = setup_.clock.now();
  std::string name = request.run_name.empty() ? tag_of(request.tags, kNameTag) : request.run_name;
  model::AttachNode agent;
  agent.job = net::random_hex(16);
  agent.launcher = kLauncher;
  agent.spec.project = TRY(project_of_run(call.caller, experiment));
  agent.spec.name = lockstep_name(name);
  agent.spec.command = {tag_of(request.tags, "mlflow.source.name")};
  if (agent.spec.command.front().empty()) agent.spec.command = {"mlflow"};
  agent.origin.user = bearer.user;
  agent.origin.git_commit = tag_of(request.tags, "mlflow.source.git.commit");
  agent.agent = {.id = std::string(kClientAgent),
                 .machine = call.caller.address.empty() ? "localhost" : call.caller.address,
                 .started = now};
  agent.ranks = {{.rank = 0, .local_rank = 0}};
  const model::NodeId node = TRY(
      setup_.controller.attach(agent, model::AuditRecord{.time = now,
                                                         .user = bearer.user,
                                                         .token = bearer.token,
                                                         .address = call.caller.address,
                                                         .action = "run.attach",
                                                         .target = agent.job,
                                                         .project = agent.spec.project,
                                                         .after = "attached by an MLflow client"}));
  const model::RunId& run = node.attempt.run;
  const std::int64_t start = request.start_time ? request.start_time->value : milliseconds(now);
  open_[run] = {.last_call = setup_.steady.since_boot()};
  const auto stored = tracking_.transaction([&]() -> Result<void> {
    TRY(tracking_.add_run(run, experiment.id, name, start,
                          call.caller.rank ? text(call.caller.own_run()) : ""));
    for (const KeyValue& tag : request.tags) TRY(tracking_.put(run, ValueKind::tag, tag));
    if (!name.empty() && tag_of(request.tags, kNameTag).empty())
      TRY(tracking_.put(run, ValueKind::tag, {std::string(kNameTag), name}));
    return {};
  });
  if (!stored) {
    // The client creates another one: this one must not stay.
    RunRow made;
    made.id = run;
    if (auto ended = end_run(made, "KILLED"); !ended) open_.erase(run);
    unmade_.insert(run);
    return stored.error();
  }
  Json of_run = {{"run_id", run_name(run)}};
  return get_run({call.request, call.caller, std::move(of_run)});
}

bool MlflowServer::is_ended_by(const host::RankName& rank) const {
  return std::ranges::find(ended_by_, rank) != ended_by_.end();
}

// A script in a run of Lockstep logs to that run, unless its client has ended it in this attempt,
// or makes a run within a run.
bool MlflowServer::takes_own_run(const Caller& caller, const CreateRun& request) const {
  return caller.rank && !is_ended_by(*caller.rank) && tag_of(request.tags, kParentTag).empty();
}

MlflowServer::Answer MlflowServer::take_own_run(const Call& call, const CreateRun& request,
                                                const ExperimentRow& experiment) {
  const model::RunId& run = call.caller.own_run();
  if (experiment.project != run.project)
    return Error{Code::invalid, format("experiment_id: {} is not of the project {} of the run {}",
                                       experiment.name, run.project, text(run))};
  const std::string name =
      request.run_name.empty() ? tag_of(request.tags, kNameTag) : request.run_name;
  TRY(tracking_.transaction([&]() -> Result<void> {
    if (experiment.id != kDefaultExperiment) TRY(tracking_.set_experiment(run, experiment.id));
    for (const KeyValue& tag : request.tags) TRY(tracking_.put(run, ValueKind::tag, tag));
    if (name.empty()) return {};
    TRY(tracking_.set_name(run, name));
    return tracking_.put(run, ValueKind::tag, {std::string(kNameTag), name});
  }));
  const Json of_run = {{"run_id", run_name(run)}};
  return get_run({call.request, call.caller, of_run});
}

Result<RunRow> MlflowServer::make_run(const Caller& caller, const std::string& experiment,
                                      const std::string& name) {
  const net::HttpRequest request;
  const Json body = {{"experiment_id", experiment}, {"run_name", name}};
  const Json made = TRY(create_run({request, caller, body}));
  const Json of_run = {{"run_id", made.at("run").at("info").at("run_id")}};
  RunRow run = TRY(changeable_run({request, caller, of_run}));
  if (!run.made_by_client) return run;  // the run of a rank goes on
  TRY(end_run(run, "FINISHED"));
  TRY(tracking_.set_status(run.id, "FINISHED", milliseconds(setup_.clock.now())));
  return run;
}

MlflowServer::Answer MlflowServer::update_run(const Call& call) {
  const auto request = TRY(read_message<UpdateRun>(call.body));
  TRY(check_run_name(request.run_name));
  const RunRow run = TRY(changeable_run(call));
  if (!request.run_name.empty()) {
    TRY(tracking_.set_name(run.id, request.run_name));
    TRY(tracking_.put(run.id, ValueKind::tag, {std::string(kNameTag), request.run_name}));
  }
  if (!request.status.empty() && run.made_by_client) {
    const std::string status = TRY(checked_status(request.status));
    std::optional<std::int64_t> end;
    if (is_end(status))
      end = request.end_time ? request.end_time->value : milliseconds(setup_.clock.now());
    if (is_end(status)) TRY(end_run(run, status));
    TRY(tracking_.set_status(run.id, status, end));
  }
  const auto& rank = call.caller.rank;
  if (rank && run.id == call.caller.own_run() && is_end(request.status) && !is_ended_by(*rank))
    ended_by_.push_back(*rank);
  const Json answer = TRY(get_run(call));
  return Json{{"run_info", answer.at("run").at("info")}};
}

MlflowServer::Answer MlflowServer::set_run_deleted(const Call& call, bool deleted) {
  const RunRow run = TRY(changeable_run(call));
  TRY(access_.change(access_.record(call.caller, deleted ? "run.hide" : "run.unhide", text(run.id),
                                    run.id.project),
                     [&] { return tracking_.set_deleted(run.id, deleted); }));
  return Json::object();
}

MlflowServer::Answer MlflowServer::log_metric(const Call& call) {
  const RunRow run = TRY(changeable_run(call));
  TRY(put_batch(run, {.metrics = {TRY(read_message<Metric>(call.body))}}, call.request.body));
  return Json::object();
}

MlflowServer::Answer MlflowServer::log_param(const Call& call) {
  const RunRow run = TRY(changeable_run(call));
  TRY(put_batch(run, {.params = {TRY(read_message<KeyValue>(call.body))}}, ""));
  return Json::object();
}

MlflowServer::Answer MlflowServer::set_tag(const Call& call) {
  const RunRow run = TRY(changeable_run(call));
  TRY(put_batch(run, {.tags = {TRY(read_message<KeyValue>(call.body))}}, ""));
  return Json::object();
}

MlflowServer::Answer MlflowServer::log_batch(const Call& call) {
  const RunRow run = TRY(changeable_run(call));
  TRY(put_batch(run, TRY(read_message<LogBatch>(call.body)), call.request.body));
  return Json::object();
}

MlflowServer::Answer MlflowServer::delete_tag(const Call& call) {
  const auto request = TRY(read_message<TagKey>(call.body));
  const RunRow run = TRY(changeable_run(call));
  if (TRY(tracking_.remove_tag(run.id, request.key))) return Json::object();
  return Error{Code::not_found, format("the run has no tag {}", request.key)};
}

// Parameters first: one that is refused refuses the batch.
Result<void> MlflowServer::put_batch(const RunRow& run, const LogBatch& batch,
                                     std::string_view body) {
  TRY(check_batch(batch));
  if (!batch.params.empty() || !batch.tags.empty())
    TRY(tracking_.transaction([&]() -> Result<void> {
      for (const KeyValue& param : batch.params)
        TRY(tracking_.put(run.id, ValueKind::param, param));
      for (const KeyValue& tag : batch.tags) {
        TRY(tracking_.put(run.id, ValueKind::tag, tag));
        if (tag.key == kNameTag) TRY(tracking_.set_name(run.id, tag.value));
      }
      if (TRY(tracking_.count_values(run.id)) <= kValuesMax) return {};
      return Error{Code::invalid, format("a run has at most {} parameters and tags", kValuesMax)};
    }));
  if (batch.metrics.empty() || is_repeated(run.id, body)) return {};
  const auto stored = put_metrics(run, batch.metrics);
  if (!stored) recent_[run.id].pop_back();
  return stored;
}

Result<void> MlflowServer::put_metrics(const RunRow& run, const std::vector<Metric>& metrics) {
  const model::NodeName node{run.generation,
                             {{run.id, std::max<std::int64_t>(run.epoch, 1)}, kClientNode}};
  const std::int64_t last = TRY(setup_.insight.ingest(node, {}));
  const auto items = items_of(metrics, last);
  const std::int64_t stored = TRY(setup_.insight.ingest(node, items));
  if (stored >= items.back().sequence) return {};
  return Error{Code::unavailable, "the points cannot be stored now; try again later"};
}

// Clients send a call again whose answer they did not get. A point with the same time, step and
// value is the same point for MLflow.
bool MlflowServer::is_repeated(const model::RunId& run, std::string_view body) {
  auto& known = recent_[run];
  const std::uint64_t hash = fnv1a(body);
  if (std::ranges::find(known, hash) != known.end()) return true;
  known.push_back(hash);
  if (known.size() > kBatchesKept) known.pop_front();
  return false;
}

// --- The agent of the runs of clients ---

// An end that cannot be stored is an error for the client, which sends it again.
Result<void> MlflowServer::end_run(const RunRow& run, const std::string& status) {
  if (run.ended || !open_.contains(run.id)) return {};
  model::Rank rank{.rank = 0, .local_rank = 0, .state = model::RankState::exited};
  rank.code = status == "FINISHED" ? 0 : 1;
  rank.ended = setup_.clock.now();
  if (status == "KILLED") {
    rank.state = model::RankState::killed;
    rank.code = 15;
  }
  auto report = report_of(run.id, rank);
  if (report && status == "KILLED") report->stop_reason = model::StopReason::signal;
  if (report) TRY(setup_.controller.report(*report));
  open_.erase(run.id);
  recent_.erase(run.id);
  return {};
}

std::optional<model::NodeReport> MlflowServer::report_of(const model::RunId& run,
                                                         const model::Rank& rank) const {
  const model::State& state = setup_.controller.state();
  const model::NodeId node{{run, 1}, 0};
  const auto attempt = state.attempts.find(node.attempt);
  if (attempt == state.attempts.end()) return std::nullopt;
  model::NodeReport report;
  report.node = node;
  report.generation = attempt->second.generation;
  report.state = model::NodeState::running;
  report.ranks = {rank};
  report.agent.id = std::string(kClientAgent);
  return report;
}

void MlflowServer::report_ranks() {
  const model::State& state = setup_.controller.state();
  std::erase_if(open_, [&](const auto& one) { return !state.open.contains(one.first); });
  std::erase_if(recent_, [&](const auto& one) { return !state.open.contains(one.first); });
  std::erase_if(ended_by_, [&](const host::RankName& one) {
    return !state.open.contains(one.attempt.id.run);
  });
  std::erase_if(unmade_, [&](const model::RunId& run) {
    const auto removed = setup_.controller.remove(run, {});
    return removed || removed.error().code == Code::not_found;
  });
  std::vector<model::NodeReport> reports;
  for (const auto& [run, open] : open_) {
    if (setup_.steady.since_boot() - open.last_call >= kClientSilentAfter) continue;
    auto report = report_of(run, {.rank = 0, .local_rank = 0, .state = model::RankState::running});
    if (report) reports.push_back(*std::move(report));
  }
  if (reports.empty()) return;
  for (const auto& stored : setup_.controller.report(reports))
    if (!stored) LS_LOG(warning, "reporting a client's run: {}", stored.error().message);
}

void MlflowServer::expect_next_report() {
  timer_ = loop_.after(kReportInterval, [this] {
    expect_next_report();
    report_ranks();
    if (const auto cleaned = artifacts_.clean_up(); !cleaned)
      LS_LOG(warning, "removing artifacts: {}", cleaned.error().message);
  });
}

}  // namespace lockstep::mlflow
