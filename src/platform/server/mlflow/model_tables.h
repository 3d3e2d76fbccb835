// ModelTables: the rows of the models that clients log, and of what runs read and make.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/core/model/ids.h"
#include "platform/store/database.h"

namespace lockstep::mlflow {

// A folder of artifacts of its run.
struct LoggedModelRow {
  std::string id;
  model::RunId run;  // that made it
  std::int64_t experiment = 0;
  std::string name, type, status;
  std::map<std::string, std::string> params{}, tags{};
  Time created{}, updated{};
  bool deleted = false;
};

// The path of its folder below its run: "models/m-1".
std::string folder_of(const LoggedModelRow& model);

enum class LinkKind { dataset, input, output };

struct Link {
  LinkKind kind = LinkKind::output;
  std::string name{};  // of a data set: with its digest; else the id of a logged model
  std::int64_t step = 0;
  std::string content{};  // JSON of a data set
};

class ModelTables {
 public:
  explicit ModelTables(store::Database& database) : database_(database) {}  // outlives this

  Result<void> add(const LoggedModelRow& model);
  Result<void> save(const LoggedModelRow& model);
  Result<std::optional<LoggedModelRow>> find(const std::string& id);
  // Those that are not deleted, newest first.
  Result<std::vector<LoggedModelRow>> of_experiments(const std::vector<std::int64_t>& experiments);
  Result<std::int64_t> count_of(const model::RunId& run);

  // A link that is there already stays as it is.
  Result<void> add(const model::RunId& run, const Link& link);
  Result<std::vector<Link>> links(const model::RunId& run);
  // The data sets that a run reads, as "name (digest)"; empty: none is known.
  Result<std::string> data_set_of(const model::RunId& run);

 private:
  Result<std::vector<LoggedModelRow>> where(std::string_view condition, const std::string& value);

  store::Database& database_;
};

}  // namespace lockstep::mlflow
