#include "platform/server/mlflow/mlflow_server.h"

#include <array>
#include <chrono>
#include <utility>

#include "base/format.h"
#include "platform/server/mlflow/match.h"
#include "platform/server/mlflow/run_name.h"

namespace lockstep::mlflow {
namespace {

constexpr std::size_t kKeyMax = 250;   // as MLflow's server has it
constexpr std::size_t kNameMax = 500;  // of an experiment
constexpr std::size_t kTagMax = 8000;
constexpr std::size_t kTagsOfExperiment = 1'000;
constexpr std::int64_t kPageDefault = 1000;
constexpr std::int64_t kPageMax = 1000;
constexpr std::size_t kPageBytes = 16 << 20;                   // of values; then the page ends
constexpr std::size_t kExperimentsMax = 100, kOrdersMax = 10;  // of a search of runs
const std::vector<std::string> kPrefix = {"api", "2.0", "mlflow"};

struct MlflowError {
  Code code;
  int status;
  std::string_view name;
};
constexpr std::array kErrors = {MlflowError{Code::invalid, 400, "INVALID_PARAMETER_VALUE"},
                                MlflowError{Code::already_exists, 400, "RESOURCE_ALREADY_EXISTS"},
                                MlflowError{Code::denied, 403, "PERMISSION_DENIED"},
                                MlflowError{Code::not_found, 404, "RESOURCE_DOES_NOT_EXIST"},
                                MlflowError{Code::exhausted, 503, "TEMPORARILY_UNAVAILABLE"},
                                MlflowError{Code::unavailable, 503, "TEMPORARILY_UNAVAILABLE"}};

net::HttpResponse json_answer(int status, const Json& json) {
  return {.status = status,
          .content_type = "application/json",
          .body = dump_json(json),
          .headers = {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}}};
}

net::HttpResponse error_answer(int status, std::string_view name, const std::string& message) {
  return json_answer(status, to_json(ErrorAnswer{std::string(name), message}));
}

net::HttpResponse error_answer(const Error& error) {
  for (const MlflowError& known : kErrors)
    if (known.code == error.code) return error_answer(known.status, known.name, error.message);
  return error_answer(500, "INTERNAL_ERROR", error.message);
}

// The path below the prefix: "runs/create".
std::string call_name(const net::HttpRequest& request) {
  return joined(
      std::vector<std::string>(request.path.begin() + static_cast<std::ptrdiff_t>(kPrefix.size()),
                               request.path.end()),
      "/");
}

bool only_reads(std::string_view what) {
  return what.ends_with("/get") || what.ends_with("/get-by-name") || what.ends_with("/search") ||
         what.ends_with("/get-history");
}

Result<Json> parameters_of(const net::HttpRequest& request) {
  if (request.method == "GET") {
    Json query = Json::object();
    for (const auto& [name, value] : request.query) query[name] = value;
    return query;
  }
  return parse_json(request.body.empty() ? "{}" : request.body);
}

Json without_absent(const Json& json) { return without_nulls(json); }

Experiment view(const ExperimentRow& row) {
  Experiment experiment{
      .experiment_id = format("{}", row.id),
      .name = row.name,
      .artifact_location = format("mlflow-artifacts:/{}", row.id),
      .lifecycle_stage = row.deleted ? "deleted" : "active",
      .creation_time = milliseconds(row.created),
      .last_update_time = milliseconds(row.updated),
  };
  experiment.tags = entries_of(row.tags);
  return experiment;
}

RunInfo info_of(const RunRow& row) {
  const std::string id = run_name(row.id);
  return {.run_id = id,
          .run_uuid = id,
          .run_name = row.name,
          .experiment_id = format("{}", row.experiment),
          .user_id = row.owner,
          .status = row.status,
          .start_time = row.start,
          .end_time = row.status == "RUNNING" ? std::nullopt : row.end,
          .artifact_uri = format("mlflow-artifacts:/{}/{}/artifacts", row.experiment, id),
          .lifecycle_stage = row.deleted ? "deleted" : "active"};
}

std::int64_t page_size(const std::optional<WireInteger>& wanted) {
  return wanted && wanted->value > 0 ? std::min(wanted->value, kPageMax) : kPageDefault;
}

std::size_t size_of(const RunData& data) {
  constexpr std::size_t kOfMetric = 64;
  std::size_t bytes = 0;
  for (const Metric& metric : data.metrics) bytes += metric.key.size() + kOfMetric;
  for (const auto* values : {&data.params, &data.tags})
    for (const KeyValue& value : *values) bytes += value.key.size() + value.value.size();
  return bytes;
}

// None: both.
Result<std::optional<bool>> deleted_of(const std::string& view_type) {
  if (view_type.empty() || view_type == "ACTIVE_ONLY") return std::optional(false);
  if (view_type == "DELETED_ONLY") return std::optional(true);
  if (view_type == "ALL") return std::optional<bool>();
  return Error{Code::invalid, format("'{}' is none of ACTIVE_ONLY, DELETED_ONLY, ALL", view_type)};
}

Result<void> check_text(std::string_view what, std::string_view text, std::size_t most) {
  if (text.empty()) return Error{Code::invalid, format("{} must not be empty", what)};
  if (text.size() <= most) return {};
  return Error{Code::invalid,
               format("{} has {} bytes, of which at most {} are allowed", what, text.size(), most)};
}

Result<void> check_tag(const KeyValue& tag) {
  TRY(check_text("the name of a tag", tag.key, kKeyMax));
  if (tag.value.size() <= kTagMax) return {};
  return Error{Code::invalid, format("the tag {} has {} bytes, of which at most {} are allowed",
                                     tag.key, tag.value.size(), kTagMax)};
}

Result<void> check_tag_count(const std::map<std::string, std::string>& tags) {
  if (tags.size() <= kTagsOfExperiment) return {};
  return Error{Code::invalid, format("an experiment has at most {} tags", kTagsOfExperiment)};
}

constexpr std::string_view kExperimentColumns[] = {"name", "creation_time", "last_update_time"};

ColumnOf columns_of(const ExperimentRow& row) {
  return [&row](const Column& column) -> ColumnValue {
    using Value = std::variant<double, std::string>;
    if (column.entity == Entity::tag) {
      const auto found = row.tags.find(column.key);
      return found == row.tags.end() ? std::nullopt : ColumnValue(Value(found->second));
    }
    if (column.key == "name") return Value(row.name);
    return Value(static_cast<double>(
        milliseconds(column.key == "creation_time" ? row.created : row.updated)));
  };
}

Result<std::vector<Comparison>> experiment_filter(const std::string& text) {
  auto filter = TRY(parse_filter(text, kExperimentColumns));
  for (const Comparison& comparison : filter)
    if (comparison.column.entity != Entity::attribute && comparison.column.entity != Entity::tag)
      return Error{Code::invalid, "filter: experiments are searched by attributes and tags"};
  return filter;
}

}  // namespace

net::HttpResponse refusal(int status, const std::string& message) {
  return error_answer(status, status == 401 ? "UNAUTHENTICATED" : "BAD_REQUEST", message);
}

MlflowServer::MlflowServer(net::Loop& loop, const Setup& setup)
    : loop_(loop),
      setup_(setup),
      tracking_(setup.database),
      access_(setup_, tracking_),
      models_(setup_, access_),
      logged_models_(
          setup_, access_,
          [this](const Caller& caller, const std::string& experiment, const std::string& name) {
            return make_run(caller, experiment, name);
          }),
      artifacts_(setup.artifacts) {
  if (const auto runs = tracking_.open_runs())
    for (const model::RunId& run : *runs) open_[run] = {.last_call = setup_.steady.since_boot()};
  expect_next_report();
}

net::HttpResponse MlflowServer::response_of(const Json& json) { return json_answer(200, json); }
net::HttpResponse MlflowServer::response_of(const Error& error) { return error_answer(error); }

bool MlflowServer::is_for(const net::HttpRequest& request) {
  return request.path.size() > kPrefix.size() &&
         std::equal(kPrefix.begin(), kPrefix.end(), request.path.begin());
}

net::HttpResponse MlflowServer::handle(const net::HttpRequest& request, const Caller& caller) {
  auto body = parameters_of(request);
  if (!body) return error_answer(std::move(body).error().with_context("the body"));
  const auto answer = dispatch({request, caller, *std::move(body)});
  if (answer) return json_answer(200, *answer);
  if (answer.error().code == Code::not_found && answer.error().message.starts_with("no call "))
    return error_answer(404, "ENDPOINT_NOT_FOUND", answer.error().message);
  return error_answer(answer.error());
}

MlflowServer::Answer MlflowServer::dispatch(const Call& call) {
  const std::string what = call_name(call.request);
  if (auto answer = models_.handle(call.request.method, what, call.body, call.caller))
    return *std::move(answer);
  if (auto answer = logged_models_.handle(call.request.method, what, call.body, call.caller))
    return *std::move(answer);
  if (call.request.method != "POST" && !only_reads(what))
    return Error{Code::not_found, format("no call {} {}", call.request.method, what)};
  if (what.starts_with("experiments/")) return experiment_call(what, call);
  if (what == "metrics/get-history") return history(call);
  return run_call(what, call);
}

MlflowServer::Answer MlflowServer::experiment_call(std::string_view what, const Call& call) {
  if (what == "experiments/create") return create_experiment(call);
  if (what == "experiments/get") return get_experiment(call);
  if (what == "experiments/get-by-name") return find_experiment(call);
  if (what == "experiments/search") return search_experiments(call);
  if (what == "experiments/update") return update_experiment(call);
  if (what == "experiments/delete") return set_experiment_deleted(call, true);
  if (what == "experiments/restore") return set_experiment_deleted(call, false);
  if (what == "experiments/set-experiment-tag") return tag_experiment(call);
  return Error{Code::not_found, format("no call {}: Lockstep does not have it", what)};
}

MlflowServer::Answer MlflowServer::run_call(std::string_view what, const Call& call) {
  if (what == "runs/create") return create_run(call);
  if (what == "runs/get") return get_run(call);
  if (what == "runs/update") return update_run(call);
  if (what == "runs/search") return search_runs(call);
  if (what == "runs/delete") return set_run_deleted(call, true);
  if (what == "runs/restore") return set_run_deleted(call, false);
  if (what == "runs/log-metric") return log_metric(call);
  if (what == "runs/log-parameter") return log_param(call);
  if (what == "runs/log-batch") return log_batch(call);
  if (what == "runs/set-tag") return set_tag(call);
  if (what == "runs/delete-tag") return delete_tag(call);
  return Error{Code::not_found, format("no call {}: Lockstep does not have it", what)};
}

// --- Experiments ---

Result<ExperimentRow> MlflowServer::changeable_experiment(const Caller& caller,
                                                          const std::string& id) {
  ExperimentRow row = TRY(access_.experiment_of(caller, id));
  if (row.id == kDefaultExperiment)
    return Error{Code::invalid, "the default experiment does not change"};
  TRY(access_.check(caller, identity::Action::submit_run, row.project));
  row.updated = setup_.clock.now();
  return row;
}

model::AuditRecord MlflowServer::experiment_record(const Call& call, std::string_view action,
                                                   const ExperimentRow& row,
                                                   std::string after) const {
  return access_.record(call.caller, action, format("{}/{}", row.project, row.name), row.project,
                        "", std::move(after));
}

MlflowServer::Answer MlflowServer::create_experiment(const Call& call) {
  const auto request = TRY(read_message<CreateExperiment>(call.body));
  TRY(check_text("the name of an experiment", request.name, kNameMax));
  const std::string project = TRY(identity::project_of_submission(
      setup_.directory, call.caller.bearer, TRY(access_.default_project(call.caller))));
  if (request.name == "Default")
    return Error{Code::already_exists, "each project has an experiment Default"};
  ExperimentRow row{.project = project, .name = request.name};
  row.created = row.updated = setup_.clock.now();
  for (const KeyValue& tag : request.tags) {
    TRY(check_tag(tag));
    row.tags[tag.key] = tag.value;
  }
  TRY(check_tag_count(row.tags));
  std::int64_t id = 0;
  TRY(access_.change(experiment_record(call, "experiment.create", row, ""), [&]() -> Result<void> {
    id = TRY(tracking_.add_experiment(row));
    return {};
  }));
  return Json{{"experiment_id", format("{}", id)}};
}

MlflowServer::Answer MlflowServer::get_experiment(const Call& call) {
  const auto request = TRY(read_message<ExperimentId>(call.body));
  return to_json(
      ExperimentAnswer{view(TRY(access_.experiment_of(call.caller, request.experiment_id)))});
}

MlflowServer::Answer MlflowServer::find_experiment(const Call& call) {
  const auto request = TRY(read_message<ExperimentName>(call.body));
  const std::string project = TRY(access_.default_project(call.caller));
  if (request.experiment_name == "Default")
    return to_json(ExperimentAnswer{view(ExperimentRow{.project = project})});
  const auto found = TRY(tracking_.find_experiment(project, request.experiment_name));
  if (found) return to_json(ExperimentAnswer{view(*found)});
  return Error{Code::not_found, format("there is no experiment {} in the project {}",
                                       request.experiment_name, project)};
}

MlflowServer::Answer MlflowServer::search_experiments(const Call& call) {
  const auto request = TRY(read_message<SearchExperiments>(call.body));
  const auto deleted = TRY(deleted_of(request.view_type));
  const auto filter = TRY(experiment_filter(request.filter));
  const std::string project = TRY(access_.default_project(call.caller));
  const std::int64_t limit = page_size(request.max_results);
  std::int64_t after = 0;
  ExperimentList list;
  const auto add = [&](const ExperimentRow& row) {
    if ((!deleted || row.deleted == *deleted) && matches(filter, columns_of(row)))
      list.experiments.push_back(view(row));
  };
  if (request.page_token.empty())
    add(ExperimentRow{.project = project});
  else
    after = TRY(parse_number(request.page_token, "page_token"));
  const auto rows = TRY(tracking_.experiments(project, after, limit));
  for (const ExperimentRow& row : rows) add(row);
  if (std::cmp_equal(rows.size(), limit)) list.next_page_token = format("{}", rows.back().id);
  return without_absent(to_json(list));
}

MlflowServer::Answer MlflowServer::update_experiment(const Call& call) {
  const auto request = TRY(read_message<UpdateExperiment>(call.body));
  TRY(check_text("the name of an experiment", request.new_name, kNameMax));
  ExperimentRow row = TRY(changeable_experiment(call.caller, request.experiment_id));
  const auto other = TRY(tracking_.find_experiment(row.project, request.new_name));
  if ((other && other->id != row.id) || request.new_name == "Default")
    return Error{Code::already_exists,
                 format("the project has an experiment {} already", request.new_name)};
  auto record = experiment_record(call, "experiment.rename", row, request.new_name);
  row.name = request.new_name;
  TRY(access_.change(record, [&] { return tracking_.save_experiment(row); }));
  return Json::object();
}

MlflowServer::Answer MlflowServer::set_experiment_deleted(const Call& call, bool deleted) {
  const auto request = TRY(read_message<ExperimentId>(call.body));
  ExperimentRow row = TRY(changeable_experiment(call.caller, request.experiment_id));
  row.deleted = deleted;
  TRY(access_.change(
      experiment_record(call, deleted ? "experiment.delete" : "experiment.restore", row, ""),
      [&] { return tracking_.save_experiment(row); }));
  return Json::object();
}

MlflowServer::Answer MlflowServer::tag_experiment(const Call& call) {
  const auto request = TRY(read_message<SetExperimentTag>(call.body));
  TRY(check_tag({request.key, request.value}));
  ExperimentRow row = TRY(changeable_experiment(call.caller, request.experiment_id));
  row.tags[request.key] = request.value;
  TRY(check_tag_count(row.tags));
  TRY(access_.change(experiment_record(call, "experiment.tag", row, request.key),
                     [&] { return tracking_.save_experiment(row); }));
  return Json::object();
}

// --- Runs that are read ---

Result<RunRow> MlflowServer::readable_run(const Call& call) {
  return access_.readable_run(call.caller, TRY(read_message<RunName>(call.body)).id());
}

Result<RunRow> MlflowServer::changeable_run(const Call& call) {
  RunRow row = TRY(access_.changeable_run(call.caller, TRY(read_message<RunName>(call.body)).id()));
  if (const auto open = open_.find(row.id); open != open_.end())
    open->second.last_call = setup_.steady.since_boot();
  return row;
}

MlflowServer::Answer MlflowServer::get_run(const Call& call) {
  const RunRow row = TRY(readable_run(call));
  return without_absent(to_json(RunAnswer{TRY(view_of(row))}));
}

Result<Run> MlflowServer::view_of(const RunRow& row) {
  Run view{.info = info_of(row), .data = TRY(tracking_.data(row.id))};
  TRY(logged_models_.add_links(row.id, view));
  return view;
}

// One project at a time: a caller's experiments are those of its project, and others it may name by
// their ids.
MlflowServer::Answer MlflowServer::search_runs(const Call& call) {
  const auto request = TRY(read_message<SearchRuns>(call.body));
  if (request.experiment_ids.size() > kExperimentsMax)
    return Error{Code::invalid, format("experiment_ids: at most {} are allowed", kExperimentsMax)};
  if (request.order_by.size() > kOrdersMax)
    return Error{Code::invalid, format("order_by: at most {} are allowed", kOrdersMax)};
  RunSearch search;
  search.deleted = TRY(deleted_of(request.run_view_type));
  search.filter = TRY(parse_filter(request.filter));
  for (const std::string& text : request.order_by)
    search.order.push_back(TRY(parse_ordering(text)));
  for (const std::string& id : request.experiment_ids) {
    const ExperimentRow row = TRY(access_.experiment_of(call.caller, id));
    if (!search.experiments.empty() && row.project != search.project)
      return Error{Code::invalid, "experiment_ids: name experiments of one project"};
    search.project = row.project;
    search.experiments.push_back(row.id);
  }
  search.limit = page_size(request.max_results) + 1;
  if (!request.page_token.empty())
    search.offset = TRY(parse_number(request.page_token, "page_token"));
  RunList list;
  if (search.experiments.empty()) return without_absent(to_json(list));
  auto rows = TRY(tracking_.search(search));
  if (std::cmp_equal(rows.size(), search.limit)) {
    rows.pop_back();
    list.next_page_token = format("{}", search.offset + search.limit - 1);
  }
  std::size_t bytes = 0;
  for (const RunRow& row : rows) {
    if (bytes > kPageBytes) {
      list.next_page_token = format("{}", search.offset + std::ssize(list.runs));
      break;
    }
    list.runs.push_back(TRY(view_of(row)));
    bytes += size_of(list.runs.back().data);
  }
  return without_absent(to_json(list));
}

MlflowServer::Answer MlflowServer::history(const Call& call) {
  const auto request = TRY(read_message<HistoryQuery>(call.body));
  const RunRow row = TRY(readable_run(call));
  insight::HistoryCursor cursor;
  if (!request.page_token.empty()) {
    const auto token =
        TRY(from_json<std::vector<std::int64_t>>(TRY(parse_json(request.page_token))));
    if (token.size() != 3) return Error{Code::invalid, "page_token: is not one of an answer"};
    cursor = {.epoch = token[0], .step = token[1], .skip = token[2]};
  }
  const std::int64_t most = std::clamp<std::int64_t>(
      request.max_results ? request.max_results->value : 25'000, 1, 25'000);
  MetricList list;
  for (const insight::MetricPoint& point :
       TRY(setup_.insight.history(row.id, request.metric_key, cursor, most)))
    list.metrics.push_back(
        {request.metric_key, point.value, {milliseconds(point.time)}, {point.step}});
  if (!cursor.ended)
    list.next_page_token = format("[{},{},{}]", cursor.epoch, cursor.step, cursor.skip);
  return without_absent(to_json(list));
}

}  // namespace lockstep::mlflow
