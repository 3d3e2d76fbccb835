#include "platform/server/mlflow/logged_model_calls.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/format.h"
#include "net/crypto.h"
#include "platform/server/mlflow/match.h"
#include "platform/server/mlflow/run_name.h"

namespace lockstep::mlflow {
namespace {

constexpr std::string_view kPending = "LOGGED_MODEL_PENDING";
constexpr std::array<std::string_view, 3> kModelStatuses = {kPending, "LOGGED_MODEL_READY",
                                                            "LOGGED_MODEL_UPLOAD_FAILED"};
constexpr std::int64_t kModelsOfRun = 1'000;
constexpr std::size_t kModelEntriesMax = 1'000;  // parameters, and tags, of a model
constexpr std::size_t kModelNameBytes = 250, kModelParamBytes = 6'000, kModelTagBytes = 8'000;
constexpr std::size_t kLinksMax = 1'000, kDataSetBytes = 64 << 10;  // of a call
constexpr std::size_t kSearchPage = 100;
constexpr std::size_t kSearchExperimentsMax = 100;
constexpr std::string_view kLoggedModelColumns[] = {"name",
                                                    "model_id",
                                                    "model_type",
                                                    "status",
                                                    "source_run_id",
                                                    "creation_timestamp",
                                                    "last_updated_timestamp"};

Result<void> add_entries(std::string_view field, std::size_t most,
                         const std::vector<KeyValue>& entries,
                         std::map<std::string, std::string>& words) {
  for (const KeyValue& entry : entries) {
    if (entry.key.empty() || entry.key.size() > kModelNameBytes)
      return Error{Code::invalid, format("{}: a name has 1 to {} bytes", field, kModelNameBytes)};
    if (entry.value.size() > most)
      return Error{Code::invalid, format("{}: {} has {} bytes, of which at most {} are allowed",
                                         field, entry.key, entry.value.size(), most)};
    words[entry.key] = entry.value;
  }
  if (words.size() <= kModelEntriesMax) return {};
  return Error{Code::invalid, format("{}: a model has at most {}", field, kModelEntriesMax)};
}

LoggedModel view(const LoggedModelRow& row) {
  const std::string run = run_name(row.run);
  return {.info = {.model_id = row.id,
                   .experiment_id = format("{}", row.experiment),
                   .name = row.name,
                   .creation_timestamp_ms = milliseconds(row.created),
                   .last_updated_timestamp_ms = milliseconds(row.updated),
                   .artifact_uri = format("mlflow-artifacts:/{}/{}/artifacts/{}", row.experiment,
                                          run, folder_of(row)),
                   .status = row.status,
                   .model_type = row.type,
                   .source_run_id = run,
                   .status_message = "",
                   .tags = entries_of(row.tags)},
          .data = {.params = entries_of(row.params)}};
}

ColumnValue entry_value(const std::map<std::string, std::string>& words, const std::string& key) {
  const auto found = words.find(key);
  if (found == words.end()) return std::nullopt;
  return std::variant<double, std::string>(found->second);
}

ColumnOf columns_of(const LoggedModelRow& row) {
  return [&row](const Column& column) -> ColumnValue {
    using Value = std::variant<double, std::string>;
    if (column.entity == Entity::tag) return entry_value(row.tags, column.key);
    if (column.entity == Entity::param) return entry_value(row.params, column.key);
    if (column.key == "name") return Value(row.name);
    if (column.key == "model_id") return Value(row.id);
    if (column.key == "model_type") return Value(row.type);
    if (column.key == "status") return Value(row.status);
    if (column.key == "source_run_id") return Value(run_name(row.run));
    return Value(static_cast<double>(
        milliseconds(column.key == "creation_timestamp" ? row.created : row.updated)));
  };
}

Result<void> refuse_metrics(const Column& column) {
  if (column.entity != Entity::metric) return {};
  return Error{Code::invalid, "logged models have no metrics: search the runs that made them"};
}

}  // namespace

std::optional<Result<Json>> LoggedModelCalls::handle(std::string_view method,
                                                     const std::string& what, const Json& body,
                                                     const Caller& caller) {
  const Call call{caller, body};
  if (method == "POST" && what == "logged-models") return create(call);
  if (method == "POST" && what == "logged-models/search") return search(call);
  if (method == "POST" && what == "runs/outputs") return log_outputs(call);
  if (method == "POST" && what == "runs/log-inputs") return log_inputs(call);
  constexpr std::string_view kPrefix = "logged-models/";
  if (!what.starts_with(kPrefix)) return std::nullopt;
  return model_call(method, what.substr(kPrefix.size()), call);
}

std::optional<Result<Json>> LoggedModelCalls::model_call(std::string_view method,
                                                         const std::string& rest,
                                                         const Call& call) {
  const auto end = rest.find('/');
  const std::string id = rest.substr(0, end);
  const std::string part = end == std::string::npos ? "" : rest.substr(end + 1);
  const auto change = [&](auto act) -> Answer {
    return act(TRY(changeable_model(call.caller, id)));
  };
  if (method == "GET" && part.empty()) {
    const auto model = readable_model(call.caller, id);
    return model ? answer_of(*model) : Answer(model.error());
  }
  if (method == "PATCH" && part.empty())
    return change([&](LoggedModelRow model) { return finalize(call, std::move(model)); });
  if (method == "DELETE" && part.empty())
    return change([&](LoggedModelRow model) { return remove(call, std::move(model)); });
  if (method == "PATCH" && part == "tags")
    return change([&](LoggedModelRow model) { return set_tags(call, std::move(model)); });
  if (method == "POST" && part == "params")
    return change([&](LoggedModelRow model) { return add_params(call, std::move(model)); });
  if (method == "DELETE" && part.starts_with("tags/"))
    return change(
        [&](LoggedModelRow model) { return delete_tag(std::move(model), part.substr(5)); });
  return std::nullopt;
}

Result<LoggedModelRow> LoggedModelCalls::readable_model(const Caller& caller,
                                                        const std::string& id) {
  auto model = TRY(tables_.find(id));
  const Error none{Code::not_found, format("there is no logged model {}", id)};
  if (!model || model->deleted || !access_.readable_run(caller, run_name(model->run))) return none;
  return *std::move(model);
}

Result<LoggedModelRow> LoggedModelCalls::changeable_model(const Caller& caller,
                                                          const std::string& id) {
  LoggedModelRow model = TRY(readable_model(caller, id));
  TRY(access_.changeable_run(caller, run_name(model.run)));
  return model;
}

LoggedModelCalls::Answer LoggedModelCalls::answer_of(const LoggedModelRow& model) const {
  return Json{{"model", to_json(view(model))}};
}

LoggedModelCalls::Answer LoggedModelCalls::save(LoggedModelRow model) {
  model.updated = setup_.clock.now();
  TRY(tables_.save(model));
  return answer_of(model);
}

LoggedModelCalls::Answer LoggedModelCalls::create(const Call& call) {
  const auto request = TRY(read_message<CreateLoggedModel>(call.body));
  const ExperimentRow experiment = TRY(access_.experiment_of(call.caller, request.experiment_id));
  LoggedModelRow model{.id = "m-" + net::random_hex(16),
                       .run = {},
                       .experiment = experiment.id,
                       .name = request.name,
                       .type = request.model_type,
                       .status = std::string(kPending)};
  if (model.name.empty()) model.name = "model-" + model.id.substr(2, 8);
  if (model.name.size() > kModelNameBytes || model.type.size() > kModelNameBytes)
    return Error{Code::invalid, format("name, model_type: have at most {} bytes", kModelNameBytes)};
  TRY(add_entries("params", kModelParamBytes, request.params, model.params));
  TRY(add_entries("tags", kModelTagBytes, request.tags, model.tags));
  const RunRow run = request.source_run_id.empty()
                         ? TRY(make_run_(call.caller, request.experiment_id, model.name))
                         : TRY(access_.changeable_run(call.caller, request.source_run_id));
  model.run = run.id;
  if (TRY(tables_.count_of(run.id)) >= kModelsOfRun)
    return Error{Code::invalid, format("a run has at most {} logged models", kModelsOfRun)};
  model.created = model.updated = setup_.clock.now();
  TRY(tables_.add(model));
  return answer_of(model);
}

LoggedModelCalls::Answer LoggedModelCalls::finalize(const Call& call, LoggedModelRow model) {
  const auto request = TRY(read_message<ChangeLoggedModel>(call.body));
  if (std::ranges::find(kModelStatuses, request.status) == kModelStatuses.end())
    return Error{Code::invalid, format("status: '{}' is none of {}", request.status,
                                       joined(kModelStatuses, ", "))};
  model.status = request.status;
  return save(std::move(model));
}

// Its files stay with its run: a version of a model may be one of them.
LoggedModelCalls::Answer LoggedModelCalls::remove(const Call& call, LoggedModelRow model) {
  model.deleted = true;
  TRY(access_.change(access_.record(call.caller, "logged_model.remove", model.id, model.run.project,
                                    text(model.run)),
                     [&]() -> Result<void> { return tables_.save(model); }));
  return Json::object();
}

LoggedModelCalls::Answer LoggedModelCalls::set_tags(const Call& call, LoggedModelRow model) {
  const auto request = TRY(read_message<ChangeLoggedModel>(call.body));
  TRY(add_entries("tags", kModelTagBytes, request.tags, model.tags));
  return save(std::move(model));
}

LoggedModelCalls::Answer LoggedModelCalls::delete_tag(LoggedModelRow model,
                                                      const std::string& key) {
  if (model.tags.erase(key) == 0)
    return Error{Code::not_found, format("the logged model has no tag {}", key)};
  TRY(save(std::move(model)));
  return Json::object();
}

LoggedModelCalls::Answer LoggedModelCalls::add_params(const Call& call, LoggedModelRow model) {
  const auto request = TRY(read_message<ChangeLoggedModel>(call.body));
  TRY(add_entries("params", kModelParamBytes, request.params, model.params));
  TRY(save(std::move(model)));
  return Json::object();
}

LoggedModelCalls::Answer LoggedModelCalls::search(const Call& call) {
  const auto request = TRY(read_message<SearchLoggedModels>(call.body));
  const auto filter = TRY(parse_filter(request.filter, kLoggedModelColumns));
  for (const Comparison& comparison : filter) TRY(refuse_metrics(comparison.column));
  std::vector<Ordering> order;
  for (const ModelOrder& one : request.order_by) {
    order.push_back(TRY(parse_ordering(one.field_name, kLoggedModelColumns)));
    TRY(refuse_metrics(order.back().column));
    order.back().ascending = one.ascending;
  }
  if (request.experiment_ids.size() > kSearchExperimentsMax)
    return Error{Code::invalid,
                 format("experiment_ids: at most {} are allowed", kSearchExperimentsMax)};
  std::vector<std::int64_t> experiments;
  for (const std::string& id : request.experiment_ids)
    experiments.push_back(TRY(access_.experiment_of(call.caller, id)).id);
  auto rows = TRY(tables_.of_experiments(experiments));
  std::erase_if(rows, [&](const LoggedModelRow& row) {
    return !access_.can_read(call.caller, row.run.project) || !matches(filter, columns_of(row));
  });
  std::ranges::stable_sort(rows, [&](const LoggedModelRow& a, const LoggedModelRow& b) {
    return is_before(order, columns_of(a), columns_of(b));
  });
  const std::size_t size =
      request.max_results && request.max_results->value > 0
          ? std::min(kSearchPage, static_cast<std::size_t>(request.max_results->value))
          : kSearchPage;
  const std::size_t offset =
      request.page_token.empty()
          ? 0
          : static_cast<std::size_t>(TRY(parse_number(request.page_token, "page_token")));
  Json answer = {{"models", Json::array()}};
  for (std::size_t i = offset; i < std::min(rows.size(), offset + size); ++i)
    answer["models"].push_back(to_json(view(rows[i])));
  if (rows.size() > offset + size) answer["next_page_token"] = format("{}", offset + size);
  return answer;
}

// --- What a run reads and makes ---

Result<void> LoggedModelCalls::log_models(const RunRow& run, LinkKind kind,
                                          const std::vector<ModelLink>& models) {
  if (models.size() > kLinksMax)
    return Error{Code::invalid, format("models: at most {} are allowed", kLinksMax)};
  for (const ModelLink& link : models) {
    if (link.model_id.empty() || link.model_id.size() > kModelNameBytes)
      return Error{Code::invalid, format("model_id: has 1 to {} bytes", kModelNameBytes)};
    TRY(tables_.add(run.id, {.kind = kind, .name = link.model_id, .step = link.step.value}));
  }
  return {};
}

LoggedModelCalls::Answer LoggedModelCalls::log_outputs(const Call& call) {
  const auto request = TRY(read_message<LogLinks>(call.body));
  const RunRow run =
      TRY(access_.changeable_run(call.caller, TRY(read_message<RunName>(call.body)).id()));
  TRY(log_models(run, LinkKind::output, request.models));
  return Json::object();
}

LoggedModelCalls::Answer LoggedModelCalls::log_inputs(const Call& call) {
  const auto request = TRY(read_message<LogLinks>(call.body));
  const RunRow run =
      TRY(access_.changeable_run(call.caller, TRY(read_message<RunName>(call.body)).id()));
  if (request.datasets.size() > kLinksMax)
    return Error{Code::invalid, format("datasets: at most {} are allowed", kLinksMax)};
  for (const Json& input : request.datasets) {
    const auto named = TRY(read_message<DatasetInput>(input));
    std::string content = dump_json(input);
    if (named.dataset.name.empty() || named.dataset.name.size() > kModelNameBytes ||
        named.dataset.digest.size() > kModelNameBytes || content.size() > kDataSetBytes)
      return Error{Code::invalid,
                   format("datasets: a name has 1 to {} bytes, and all of one at most {}",
                          kModelNameBytes, kDataSetBytes)};
    TRY(tables_.add(run.id,
                    {.kind = LinkKind::dataset,
                     .name = named.dataset.digest.empty()
                                 ? named.dataset.name
                                 : format("{} ({})", named.dataset.name, named.dataset.digest),
                     .content = std::move(content)}));
  }
  TRY(log_models(run, LinkKind::input, request.models));
  return Json::object();
}

Result<void> LoggedModelCalls::add_links(const model::RunId& run, Run& view) {
  for (const Link& link : TRY(tables_.links(run))) {
    if (link.kind == LinkKind::dataset)
      view.inputs["dataset_inputs"].push_back(TRY(parse_json(link.content)));
    else if (link.kind == LinkKind::input)
      view.inputs["model_inputs"].push_back({{"model_id", link.name}});
    else
      view.outputs["model_outputs"].push_back({{"model_id", link.name}, {"step", link.step}});
  }
  return {};
}

}  // namespace lockstep::mlflow
