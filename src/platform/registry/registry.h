// Registry: models of projects, and their versions: names of checkpoints and artifacts of runs,
// with the lineage back to run, code and data (docs/design/registry.md). On the daemon's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/core/model/audit_record.h"
#include "platform/core/model/ids.h"
#include "platform/store/database.h"

namespace lockstep::registry {

inline constexpr std::int64_t kModelsMax = 1'000;     // of a project
inline constexpr std::int64_t kVersionsMax = 10'000;  // of a project
inline constexpr std::int64_t kVersionMax = 1'000'000'000;
inline constexpr std::size_t kTagsMax = 100;  // of a model, and of a version
inline constexpr std::size_t kAliasesMax = 100;
inline constexpr std::size_t kTextMax = 8'000;     // of a description and a value
inline constexpr std::size_t kTagNameMax = 250;    // bytes
inline constexpr std::size_t kSourceMax = 2'000;   // bytes
inline constexpr std::size_t kDataSetMax = 1'000;  // bytes
inline constexpr std::string_view kNoStage = "None";

using Tags = std::map<std::string, std::string>;

struct ModelName {
  std::string project, name;
};

struct Model {
  ModelName id;
  std::string user;  // that made it
  std::string description{};
  Tags tags{};
  Time created{}, updated{};
  std::int64_t last_version = 0;  // numbers of removed versions do not come again
  std::map<std::string, std::int64_t> aliases{};
};

// A checkpoint of a run, an artifact of a run, or a place that an MLflow client names. Its run is
// of the model's project.
struct Version {
  ModelName model_name;
  std::int64_t number = 0;
  std::optional<model::RunId> run{};
  std::optional<std::int64_t> step{};  // of a checkpoint
  std::string path{};    // the folder of the checkpoint, or the path of the artifact in its run
  std::string source{};  // as an MLflow client named it
  std::string logged_model{};  // its id for MLflow's clients; empty: none
  std::string git_commit{};    // of the run
  bool git_dirty = false;
  std::string data_set{};
  std::string user{};  // that registered it
  std::string description{};
  std::string stage{kNoStage};  // for older clients of MLflow
  Tags tags{};
  Time created{}, updated{};
  std::vector<std::string> aliases{};
};

// "gpt": letters, digits, '.', '_' and '-'.
Result<void> check_model_name(std::string_view name);
// Letters, digits, '_' and '-'; neither "latest" nor a version such as "3" or "v3".
Result<void> check_alias(std::string_view alias);
Result<void> check_tag(std::string_view name, std::string_view value);

class Registry {
 public:
  explicit Registry(store::Database& database) : database_(database) {}  // outlives this

  // Each change is stored with its record, or not at all.
  using Audit = model::AuditRecord;
  enum class IfMissing { create, refuse };

  // Code::already_exists.
  Result<void> add(const Model& model, const Audit& audit);
  // Code::not_found.
  Result<Model> find(const ModelName& id);
  // By project and name; empty: of all projects.
  Result<std::vector<Model>> models(const std::optional<std::vector<std::string>>& projects);
  // The description and the tags.
  Result<void> save(const Model& model, const Audit& audit);
  Result<void> rename(const ModelName& id, const std::string& name, const Audit& audit);
  Result<void> remove(const ModelName& id, const Audit& audit);

  // Number 0: the next one; its number becomes the record's target. Code::already_exists: the
  // number was used before.
  Result<Version> add(Version version, IfMissing model, const Audit& audit);
  Result<Version> find(const ModelName& id, std::int64_t number);
  Result<Version> find(const ModelName& id, const std::string& alias);
  // Newest first. An empty name: those of all models of the project.
  Result<std::vector<Version>> versions(const ModelName& id);
  // Those of a run.
  Result<std::vector<Version>> versions_of(const model::RunId& run);
  // The description, the tags and the stage.
  Result<void> save(const Version& version, const Audit& audit);
  // With its aliases.
  Result<void> remove(const Version& version, const Audit& audit);
  // None: the alias goes.
  Result<void> set_alias(const ModelName& id, const std::string& alias,
                         std::optional<std::int64_t> number, const Audit& audit);

 private:
  Result<void> change(const Audit& audit, const std::function<Result<void>()>& work);
  Result<std::vector<Version>> versions_where(std::string_view condition, const std::string& a,
                                              const std::string& b, std::int64_t number);
  Result<void> check_room(std::string_view table, const std::string& project, std::int64_t most);

  store::Database& database_;
};

// "gpt:3".
std::string text(const Version& version);

}  // namespace lockstep::registry
