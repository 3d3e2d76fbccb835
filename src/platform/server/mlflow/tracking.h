// Tracking: the tables of MLflow's experiments, and what its clients say about runs beside their
// metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/core/model/ids.h"
#include "platform/server/mlflow/filter.h"
#include "platform/server/mlflow/messages.h"
#include "platform/store/database.h"

namespace lockstep::mlflow {

// The group of the runs that no client has put into another one. It has no row.
inline constexpr std::int64_t kDefaultExperiment = 0;

struct ExperimentRow {
  std::int64_t id = kDefaultExperiment;
  std::string project;
  std::string name = "Default";
  Time created{}, updated{};
  bool deleted = false;
  std::map<std::string, std::string> tags{};
};

struct RunRow {
  model::RunId id;
  std::string generation;
  std::int64_t epoch = 0;
  std::string owner;
  std::int64_t experiment = kDefaultExperiment;
  std::string name;
  std::string status;      // as MLflow names it
  std::int64_t start = 0;  // milliseconds since 1970
  std::optional<std::int64_t> end{};
  bool deleted = false;
  bool made_by_client = false;
  bool ended = false;  // for Lockstep
  std::string git_commit{};
  bool git_dirty = false;
  std::string parent{};  // the run of Lockstep whose rank made it; empty: none did
};

// Parameters do not change; tags do.
enum class ValueKind { param, tag };

struct RunSearch {
  std::string project;
  std::vector<std::int64_t> experiments;
  std::vector<Comparison> filter;
  std::vector<Ordering> order;
  std::optional<bool> deleted = false;  // none: all
  std::int64_t limit = 1000;
  std::int64_t offset = 0;
};

class Tracking {
 public:
  explicit Tracking(store::Database& database) : database_(database) {}  // outlives this

  // Code::already_exists: the project has one of this name, maybe a deleted one.
  Result<std::int64_t> add_experiment(const ExperimentRow& row);
  Result<void> save_experiment(const ExperimentRow& row);
  Result<std::optional<ExperimentRow>> find_experiment(std::int64_t id);
  Result<std::optional<ExperimentRow>> find_experiment(const std::string& project,
                                                       const std::string& name);
  // Those of a project, by id, after `after`.
  Result<std::vector<ExperimentRow>> experiments(const std::string& project, std::int64_t after,
                                                 std::int64_t limit);

  // A run that a client made. `status` is what clients say; Lockstep's state counts once it ended.
  Result<void> add_run(const model::RunId& run, std::int64_t experiment, const std::string& name,
                       std::int64_t start, const std::string& parent);
  // A run of Lockstep goes into another experiment.
  Result<void> set_experiment(const model::RunId& run, std::int64_t experiment);
  Result<void> set_status(const model::RunId& run, const std::string& status,
                          std::optional<std::int64_t> end);
  Result<void> set_name(const model::RunId& run, const std::string& name);
  Result<void> set_deleted(const model::RunId& run, bool deleted);
  Result<std::optional<RunRow>> find_run(const model::RunId& run);
  Result<std::vector<RunRow>> search(const RunSearch& search);
  // Those that clients made and that have not ended.
  Result<std::vector<model::RunId>> open_runs();

  // Code::invalid: the parameter has another value.
  Result<void> put(const model::RunId& run, ValueKind kind, const KeyValue& value);
  // Parameters and tags together.
  Result<std::int64_t> count_values(const model::RunId& run);
  // False: there was no such tag.
  Result<bool> remove_tag(const model::RunId& run, const std::string& key);
  // The latest metrics, parameters and tags.
  Result<RunData> data(const model::RunId& run);

  Result<void> transaction(const std::function<Result<void>()>& work) {
    return database_.transaction(work);
  }

 private:
  store::Database& database_;
};

}  // namespace lockstep::mlflow
