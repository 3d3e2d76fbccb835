// The messages of MLflow's tracking API, as MLflow 3 sends and reads them. Unknown fields are
// ignored, as MLflow's own server does.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "text/convert.h"

namespace lockstep::mlflow {

template <class T>
Result<T> read_message(const Json& json) {
  return from_json<T>(json, UnknownFields::ignore);
}

inline std::int64_t milliseconds(Time time) { return time.time_since_epoch().count() / 1000; }

// MLflow writes 64-bit integers as numbers or as texts.
struct WireInteger {
  using Form = Json;
  std::int64_t value = 0;

  Json form() const { return value; }
  static Result<WireInteger> from_form(const Json& json);
};

struct KeyValue {
  std::string key;
  std::string value;

  static constexpr auto fields() {
    return record<KeyValue>(required(field("key", &KeyValue::key, "its name")),
                            required(field("value", &KeyValue::value, "its value")));
  }
};

std::vector<KeyValue> entries_of(const std::map<std::string, std::string>& words);

struct Metric {
  std::string key;
  double value = 0;
  WireInteger timestamp{};  // milliseconds since 1970
  WireInteger step{};

  static constexpr auto fields() {
    return record<Metric>(
        required(field("key", &Metric::key, "the metric's name")),
        required(field("value", &Metric::value, "a number, NaN or infinite")),
        required(field("timestamp", &Metric::timestamp, "milliseconds since 1970")),
        field("step", &Metric::step, "training step"));
  }
};

// --- Experiments ---

struct Experiment {
  std::string experiment_id;
  std::string name;
  std::string artifact_location{};
  std::string lifecycle_stage = "active";
  std::int64_t creation_time = 0;
  std::int64_t last_update_time = 0;
  std::vector<KeyValue> tags{};

  static constexpr auto fields() {
    return record<Experiment>(
        field("experiment_id", &Experiment::experiment_id, "its id"),
        field("name", &Experiment::name, "its name"),
        field("artifact_location", &Experiment::artifact_location, "where its artifacts would be"),
        field("lifecycle_stage", &Experiment::lifecycle_stage, "active or deleted"),
        field("creation_time", &Experiment::creation_time, "milliseconds since 1970"),
        field("last_update_time", &Experiment::last_update_time, "milliseconds since 1970"),
        field("tags", &Experiment::tags, "its tags"));
  }
};

struct CreateExperiment {
  std::string name;
  std::vector<KeyValue> tags{};

  static constexpr auto fields() {
    return record<CreateExperiment>(
        required(field("name", &CreateExperiment::name, "unique in the project")),
        field("tags", &CreateExperiment::tags, "its tags"));
  }
};

// Also the request of get, delete and restore.
struct ExperimentId {
  std::string experiment_id;

  static constexpr auto fields() {
    return record<ExperimentId>(
        required(field("experiment_id", &ExperimentId::experiment_id, "the experiment's id")));
  }
};

struct ExperimentName {
  std::string experiment_name;

  static constexpr auto fields() {
    return record<ExperimentName>(required(
        field("experiment_name", &ExperimentName::experiment_name, "the experiment's name")));
  }
};

struct UpdateExperiment {
  std::string experiment_id;
  std::string new_name;

  static constexpr auto fields() {
    return record<UpdateExperiment>(
        required(field("experiment_id", &UpdateExperiment::experiment_id, "the experiment's id")),
        required(field("new_name", &UpdateExperiment::new_name, "unique in the project")));
  }
};

struct SetExperimentTag {
  std::string experiment_id, key, value;

  static constexpr auto fields() {
    return record<SetExperimentTag>(
        required(field("experiment_id", &SetExperimentTag::experiment_id, "the experiment's id")),
        required(field("key", &SetExperimentTag::key, "the tag's name")),
        required(field("value", &SetExperimentTag::value, "the tag's value")));
  }
};

struct SearchExperiments {
  std::optional<WireInteger> max_results{};
  std::string page_token{};
  std::string filter{};
  std::string view_type{};
  std::vector<std::string> order_by{};

  static constexpr auto fields() {
    return record<SearchExperiments>(
        field("max_results", &SearchExperiments::max_results, "at most so many"),
        field("page_token", &SearchExperiments::page_token, "of the last answer"),
        field("filter", &SearchExperiments::filter, "on name and tags"),
        field("view_type", &SearchExperiments::view_type, "ACTIVE_ONLY, DELETED_ONLY or ALL"),
        field("order_by", &SearchExperiments::order_by, "attributes, each with ASC or DESC"));
  }
};

struct ExperimentAnswer {
  Experiment experiment;

  static constexpr auto fields() {
    return record<ExperimentAnswer>(
        field("experiment", &ExperimentAnswer::experiment, "the experiment"));
  }
};

struct ExperimentList {
  std::vector<Experiment> experiments;
  std::optional<std::string> next_page_token{};

  static constexpr auto fields() {
    return record<ExperimentList>(
        field("experiments", &ExperimentList::experiments, "the experiments"),
        field("next_page_token", &ExperimentList::next_page_token, "absent: this was the last"));
  }
};

// --- Runs ---

struct RunInfo {
  std::string run_id, run_uuid, run_name, experiment_id, user_id;
  std::string status;
  std::int64_t start_time = 0;
  std::optional<std::int64_t> end_time{};
  std::string artifact_uri{};
  std::string lifecycle_stage = "active";

  static constexpr auto fields() {
    return record<RunInfo>(
        field("run_id", &RunInfo::run_id, "the run's id"),
        field("run_uuid", &RunInfo::run_uuid, "the same"),
        field("run_name", &RunInfo::run_name, "its name"),
        field("experiment_id", &RunInfo::experiment_id, "its experiment"),
        field("user_id", &RunInfo::user_id, "the user that started it"),
        field("status", &RunInfo::status, "RUNNING, SCHEDULED, FINISHED, FAILED or KILLED"),
        field("start_time", &RunInfo::start_time, "milliseconds since 1970"),
        field("end_time", &RunInfo::end_time, "milliseconds since 1970"),
        field("artifact_uri", &RunInfo::artifact_uri, "where its artifacts would be"),
        field("lifecycle_stage", &RunInfo::lifecycle_stage, "active or deleted"));
  }
};

struct RunData {
  std::vector<Metric> metrics{};
  std::vector<KeyValue> params{}, tags{};

  static constexpr auto fields() {
    return record<RunData>(field("metrics", &RunData::metrics, "the latest value of each"),
                           field("params", &RunData::params, "its parameters"),
                           field("tags", &RunData::tags, "its tags"));
  }
};

struct Run {
  RunInfo info;
  RunData data{};
  Json inputs = Json::object(), outputs = Json::object();

  static constexpr auto fields() {
    return record<Run>(field("info", &Run::info, "what it is"),
                       field("data", &Run::data, "what it logged"),
                       field("inputs", &Run::inputs, "the data sets and models that it reads"),
                       field("outputs", &Run::outputs, "the models that it makes"));
  }
};

struct RunAnswer {
  Run run;

  static constexpr auto fields() {
    return record<RunAnswer>(field("run", &RunAnswer::run, "the run"));
  }
};

struct RunInfoAnswer {
  RunInfo run_info;

  static constexpr auto fields() {
    return record<RunInfoAnswer>(field("run_info", &RunInfoAnswer::run_info, "the run"));
  }
};

struct CreateRun {
  std::string experiment_id = "0";
  std::string user_id{}, run_name{};
  std::optional<WireInteger> start_time{};
  std::vector<KeyValue> tags{};

  static constexpr auto fields() {
    return record<CreateRun>(field("experiment_id", &CreateRun::experiment_id, "its experiment"),
                             field("user_id", &CreateRun::user_id, "ignored: the token says it"),
                             field("run_name", &CreateRun::run_name, "its name"),
                             field("start_time", &CreateRun::start_time, "milliseconds since 1970"),
                             field("tags", &CreateRun::tags, "its tags"));
  }
};

// Each request about one run has it under two names.
struct RunName {
  std::string run_id{}, run_uuid{};

  const std::string& id() const { return run_id.empty() ? run_uuid : run_id; }
  static constexpr auto fields() {
    return record<RunName>(field("run_id", &RunName::run_id, "the run"),
                           field("run_uuid", &RunName::run_uuid, "the same"));
  }
};

struct UpdateRun {
  std::string status{};
  std::optional<WireInteger> end_time{};
  std::string run_name{};

  static constexpr auto fields() {
    return record<UpdateRun>(field("status", &UpdateRun::status, "its new status"),
                             field("end_time", &UpdateRun::end_time, "milliseconds since 1970"),
                             field("run_name", &UpdateRun::run_name, "its new name"));
  }
};

struct TagKey {
  std::string key;

  static constexpr auto fields() {
    return record<TagKey>(required(field("key", &TagKey::key, "the tag's name")));
  }
};

struct LogBatch {
  std::vector<Metric> metrics{};
  std::vector<KeyValue> params{}, tags{};

  static constexpr auto fields() {
    return record<LogBatch>(field("metrics", &LogBatch::metrics, "at most 1,000"),
                            field("params", &LogBatch::params, "at most 100"),
                            field("tags", &LogBatch::tags, "at most 100"));
  }
};

struct SearchRuns {
  std::vector<std::string> experiment_ids{};
  std::string filter{};
  std::string run_view_type{};
  std::optional<WireInteger> max_results{};
  std::vector<std::string> order_by{};
  std::string page_token{};

  static constexpr auto fields() {
    return record<SearchRuns>(
        field("experiment_ids", &SearchRuns::experiment_ids, "their experiments"),
        field("filter", &SearchRuns::filter, "in MLflow's language"),
        field("run_view_type", &SearchRuns::run_view_type, "ACTIVE_ONLY, DELETED_ONLY or ALL"),
        field("max_results", &SearchRuns::max_results, "at most so many"),
        field("order_by", &SearchRuns::order_by, "columns, each with ASC or DESC"),
        field("page_token", &SearchRuns::page_token, "of the last answer"));
  }
};

struct RunList {
  std::vector<Run> runs;
  std::optional<std::string> next_page_token{};

  static constexpr auto fields() {
    return record<RunList>(
        field("runs", &RunList::runs, "the runs"),
        field("next_page_token", &RunList::next_page_token, "absent: this was the last"));
  }
};

struct HistoryQuery {
  std::string metric_key;
  std::optional<WireInteger> max_results{};
  std::string page_token{};

  static constexpr auto fields() {
    return record<HistoryQuery>(
        required(field("metric_key", &HistoryQuery::metric_key, "the metric's name")),
        field("max_results", &HistoryQuery::max_results, "at most so many"),
        field("page_token", &HistoryQuery::page_token, "of the last answer"));
  }
};

struct MetricList {
  std::vector<Metric> metrics;
  std::optional<std::string> next_page_token{};

  static constexpr auto fields() {
    return record<MetricList>(
        field("metrics", &MetricList::metrics, "its points"),
        field("next_page_token", &MetricList::next_page_token, "absent: this was the last"));
  }
};

struct ErrorAnswer {
  std::string error_code, message;

  static constexpr auto fields() {
    return record<ErrorAnswer>(field("error_code", &ErrorAnswer::error_code, "for programs"),
                               field("message", &ErrorAnswer::message, "for people"));
  }
};

}  // namespace lockstep::mlflow
