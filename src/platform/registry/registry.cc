#include "platform/registry/registry.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/format.h"
#include "platform/store/audit_table.h"
#include "text/convert.h"

namespace lockstep::registry {
namespace {

using Int = std::int64_t;
using Text = std::string;

constexpr std::size_t kNameMax = 128, kAliasMax = 64;
constexpr std::string_view kDigits = "0123456789";

bool is_name_letter(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '-';
}

Error no_model(const ModelName& id) {
  return {Code::not_found,
          format("the project {} has no model {}; `lockstep model ls` lists the models", id.project,
                 id.name)};
}

Error no_version(const ModelName& id, const Text& version) {
  return {Code::not_found,
          format("the model {} of the project {} has no version {}", id.name, id.project, version)};
}

Result<Tags> tags_from(const Text& json) { return from_json<Tags>(TRY(parse_json(json))); }

using ModelColumns = std::tuple<Text, Text, Text, Text, Text, Time, Time, Int>;

Result<Model> model_from(ModelColumns& columns) {
  auto& [project, name, user, description, tags, created, updated, last] = columns;
  return Model{.id = {std::move(project), std::move(name)},
               .user = std::move(user),
               .description = std::move(description),
               .tags = TRY(tags_from(tags)),
               .created = created,
               .updated = updated,
               .last_version = last};
}

using VersionColumns =
    std::tuple<Text, Text, Int, std::optional<Text>, std::optional<Int>, std::optional<Int>, Text,
               Text, Text, Text, bool, Text, Text, Text, Text, Text, Time, Time, Text>;
// JSON.
constexpr std::string_view kAliasesColumn =
    "(select json_group_array(alias) from model_aliases a where a.project = "
    "model_versions.project and a.name = model_versions.name and a.version = "
    "model_versions.version)";
constexpr std::string_view kVersionColumns =
    "project, name, version, run_project, run_number, step, path, source, logged_model, "
    "git_commit, "
    "git_dirty, data_set, user, description, stage, tags, created, updated";

Result<Version> version_from(VersionColumns& columns) {
  auto& [project, name, number, run_project, run_number, step, path, source, logged_model, commit,
         dirty, data_set, user, description, stage, tags, created, updated, aliases] = columns;
  Version version{.model_name = {std::move(project), std::move(name)},
                  .number = number,
                  .step = step,
                  .path = std::move(path),
                  .source = std::move(source),
                  .logged_model = std::move(logged_model),
                  .git_commit = std::move(commit),
                  .git_dirty = dirty,
                  .data_set = std::move(data_set),
                  .user = std::move(user),
                  .description = std::move(description),
                  .stage = std::move(stage),
                  .tags = TRY(tags_from(tags)),
                  .created = created,
                  .updated = updated,
                  .aliases = TRY((from_json<std::vector<Text>>(TRY(parse_json(aliases)))))};
  if (run_project && run_number) version.run = {*std::move(run_project), *run_number};
  return version;
}

Result<void> check_tags(const Tags& tags) {
  if (tags.size() > kTagsMax)
    return Error{Code::invalid, format("tags: at most {} are allowed", kTagsMax)};
  for (const auto& [name, value] : tags) TRY(check_tag(name, value));
  return {};
}

Result<void> check_text(std::string_view field, const Text& words, std::size_t most) {
  if (words.size() <= most) return {};
  return Error{Code::invalid, format("{}: has {} bytes, of which at most {} are allowed", field,
                                     words.size(), most)};
}

}  // namespace

Result<void> check_model_name(std::string_view name) {
  if (!name.empty() && name.size() <= kNameMax &&
      std::isalnum(static_cast<unsigned char>(name.front())) != 0 &&
      std::ranges::all_of(name, [](char c) { return is_name_letter(c) || c == '.'; }))
    return {};
  return Error{Code::invalid,
               format("the name of a model has 1 to {} letters, digits, '.', '_' and '-', and "
                      "begins with a letter or a digit",
                      kNameMax)};
}

Result<void> check_alias(std::string_view alias) {
  const bool is_plain =
      !alias.empty() && alias.size() <= kAliasMax && std::ranges::all_of(alias, is_name_letter);
  const std::string_view number =
      alias.starts_with('v') || alias.starts_with('V') ? alias.substr(1) : alias;
  const bool is_version = number.find_first_not_of(kDigits) == std::string_view::npos;
  if (is_plain && !is_version && alias != "latest") return {};
  return Error{Code::invalid,
               format("an alias has 1 to {} letters, digits, '_' and '-', and is neither 'latest' "
                      "nor a version such as '3' or 'v3'",
                      kAliasMax)};
}

Result<void> check_tag(std::string_view name, std::string_view value) {
  if (name.empty() || name.size() > kTagNameMax)
    return Error{Code::invalid, format("the name of a tag has 1 to {} bytes", kTagNameMax)};
  if (value.size() <= kTextMax) return {};
  return Error{Code::invalid, format("the tag {} has {} bytes, of which at most {} are allowed",
                                     name, value.size(), kTextMax)};
}

std::string text(const Version& version) {
  return format("{}:{}", version.model_name.name, version.number);
}

Result<void> Registry::change(const Audit& audit, const std::function<Result<void>()>& work) {
  return database_.transaction([&]() -> Result<void> {
    TRY(work());
    return store::add(database_, audit);
  });
}

Result<void> Registry::check_room(std::string_view table, const Text& project, Int most) {
  const auto count = TRY(database_.rows<Int>(
      format("select count(*) from {} where project = :project", table), project));
  if (std::get<0>(count.front()) < most) return {};
  return Error{Code::invalid, format("the project {} has {} {} already, the most that it may have",
                                     project, most, table == "models" ? "models" : "versions")};
}

// --- Models ---

namespace {

Result<void> insert(store::Database& database, const Model& model) {
  TRY(check_model_name(model.id.name));
  TRY(check_text("description", model.description, kTextMax));
  TRY(check_tags(model.tags));
  return database.execute(
      "insert into models (project, name, user, description, tags, created, updated, last_version) "
      "values (:project, :name, :user, :description, :tags, :created, :updated, 0)",
      model.id.project, model.id.name, model.user, model.description,
      dump_json(to_json(model.tags)), model.created, model.updated);
}

Result<void> touch(store::Database& database, const ModelName& id, Time now) {
  return database.execute(
      "update models set updated = :now where project = :project and name = :name", now, id.project,
      id.name);
}

}  // namespace

Result<void> Registry::add(const Model& model, const Audit& audit) {
  if (find(model.id))
    return Error{Code::already_exists,
                 format("the project {} has a model {} already", model.id.project, model.id.name)};
  TRY(check_room("models", model.id.project, kModelsMax));
  return change(audit, [&] { return insert(database_, model); });
}

Result<Model> Registry::find(const ModelName& id) {
  auto rows = TRY((database_.rows<Text, Text, Text, Text, Text, Time, Time, Int>(
      "select project, name, user, description, tags, created, updated, last_version from models "
      "where project = :project and name = :name",
      id.project, id.name)));
  if (rows.empty()) return no_model(id);
  Model model = TRY(model_from(rows.front()));
  for (auto& [alias, number] : TRY((database_.rows<Text, Int>(
           "select alias, version from model_aliases where project = :project and name = :name",
           id.project, id.name))))
    model.aliases[std::move(alias)] = number;
  return model;
}

Result<std::vector<Model>> Registry::models(const std::optional<std::vector<Text>>& projects) {
  const Text wanted = dump_json(to_json(projects.value_or(std::vector<Text>())));
  std::vector<Model> found;
  for (auto& row : TRY((database_.rows<Text, Text, Text, Text, Text, Time, Time, Int>(
           "select project, name, user, description, tags, created, updated, last_version from "
           "models where :all or project in (select value from json_each(:projects)) order by "
           "project, name",
           !projects, wanted))))
    found.push_back(TRY(model_from(row)));
  for (auto& [project, name, alias, number] : TRY((database_.rows<Text, Text, Text, Int>(
           "select project, name, alias, version from model_aliases where :all or project in "
           "(select value from json_each(:projects))",
           !projects, wanted)))) {
    const auto place = std::ranges::lower_bound(
        found, std::tie(project, name), {},
        [](const Model& model) { return std::tie(model.id.project, model.id.name); });
    if (place != found.end() && place->id.project == project && place->id.name == name)
      place->aliases[alias] = number;
  }
  return found;
}

Result<void> Registry::save(const Model& model, const Audit& audit) {
  TRY(check_text("description", model.description, kTextMax));
  TRY(check_tags(model.tags));
  return change(audit, [&] {
    return database_.execute(
        "update models set description = :description, tags = :tags, updated = :updated where "
        "project = :project and name = :name",
        model.description, dump_json(to_json(model.tags)), model.updated, model.id.project,
        model.id.name);
  });
}

Result<void> Registry::rename(const ModelName& id, const Text& name, const Audit& audit) {
  TRY(check_model_name(name));
  TRY(find(id));
  if (find({id.project, name}))
    return Error{Code::already_exists,
                 format("the project {} has a model {} already", id.project, name)};
  return change(audit, [&]() -> Result<void> {
    for (const auto* table : {"models", "model_versions", "model_aliases"})
      TRY(database_.execute(
          format("update {} set name = :new where project = :project and name = :name", table),
          name, id.project, id.name));
    return touch(database_, {id.project, name}, audit.time);
  });
}

Result<void> Registry::remove(const ModelName& id, const Audit& audit) {
  TRY(find(id));
  return change(audit, [&]() -> Result<void> {
    for (const auto* table : {"models", "model_versions", "model_aliases"})
      TRY(database_.execute(
          format("delete from {} where project = :project and name = :name", table), id.project,
          id.name));
    return {};
  });
}

// --- Versions ---

Result<Version> Registry::add(Version version, IfMissing missing, const Audit& audit) {
  const ModelName& id = version.model_name;
  TRY(check_model_name(id.name));
  TRY(check_text("description", version.description, kTextMax));
  TRY(check_text("source", version.source, kSourceMax));
  TRY(check_text("data_set", version.data_set, kDataSetMax));
  TRY(check_tags(version.tags));
  TRY(check_room("model_versions", id.project, kVersionsMax));
  const auto known = find(id);
  if (!known && (known.error().code != Code::not_found || missing == IfMissing::refuse))
    return known.error();
  if (!known) TRY(check_room("models", id.project, kModelsMax));
  const Int last = known ? known->last_version : 0;
  if (version.number == 0) version.number = last + 1;
  if (version.number > kVersionMax)
    return Error{Code::invalid, format("a version is at most {}", kVersionMax)};
  if (version.number <= last)
    return Error{Code::already_exists,
                 format("the model {} has or had a version {}: the next one is {}", id.name,
                        version.number, last + 1)};
  version.created = version.updated = audit.time;
  Audit record = audit;
  record.target = format("{}/{}", id.project, text(version));
  TRY(change(record, [&]() -> Result<void> {
    if (!known)
      TRY(insert(database_, {.id = id,
                             .user = version.user,
                             .created = version.created,
                             .updated = version.created}));
    const auto run_project = version.run ? std::optional(version.run->project) : std::nullopt;
    const auto run_number = version.run ? std::optional(version.run->number) : std::nullopt;
    TRY(database_.execute(
        format("insert into model_versions ({}) values (:project, :name, :version, :run_project, "
               ":run_number, :step, :path, :source, :logged_model, :git_commit, :git_dirty, "
               ":data_set, :user, :description, :stage, :tags, :created, :updated)",
               kVersionColumns),
        id.project, id.name, version.number, run_project, run_number, version.step, version.path,
        version.source, version.logged_model, version.git_commit, version.git_dirty,
        version.data_set, version.user, version.description, version.stage,
        dump_json(to_json(version.tags)), version.created, version.updated));
    return database_.execute(
        "update models set last_version = :version, updated = :now where project = :project and "
        "name = :name",
        version.number, version.created, id.project, id.name);
  }));
  return version;
}

// `a` and `b` and `number` are the values of the condition.
Result<std::vector<Version>> Registry::versions_where(std::string_view condition, const Text& a,
                                                      const Text& b, Int number) {
  std::vector<Version> found;
  for (auto& row : TRY((database_.rows<Text, Text, Int, std::optional<Text>, std::optional<Int>,
                                       std::optional<Int>, Text, Text, Text, Text, bool, Text, Text,
                                       Text, Text, Text, Time, Time, Text>(
           format("select {}, {} from model_versions where {} order by project, name, version desc",
                  kVersionColumns, kAliasesColumn, condition),
           a, b, number))))
    found.push_back(TRY(version_from(row)));
  return found;
}

Result<Version> Registry::find(const ModelName& id, Int number) {
  auto found = TRY(versions_where("project = :project and name = :name and version = :version",
                                  id.project, id.name, number));
  if (!found.empty()) return std::move(found.front());
  TRY(find(id));
  return no_version(id, format("{}", number));
}

Result<Version> Registry::find(const ModelName& id, const Text& alias) {
  const Model model = TRY(find(id));
  const auto found = model.aliases.find(alias);
  if (found != model.aliases.end()) return find(id, found->second);
  return Error{Code::not_found, format("the model {} of the project {} has no alias {}", id.name,
                                       id.project, alias)};
}

Result<std::vector<Version>> Registry::versions(const ModelName& id) {
  return versions_where("project = :project and (name = :name or :all)", id.project, id.name,
                        id.name.empty() ? 1 : 0);
}

Result<std::vector<Version>> Registry::versions_of(const model::RunId& run) {
  return versions_where("run_project = :project and :unused = '' and run_number = :number",
                        run.project, "", run.number);
}

Result<void> Registry::save(const Version& version, const Audit& audit) {
  TRY(check_text("description", version.description, kTextMax));
  TRY(check_tags(version.tags));
  return change(audit, [&]() -> Result<void> {
    TRY(database_.execute(
        "update model_versions set description = :description, tags = :tags, stage = :stage, "
        "updated = :updated where project = :project and name = :name and version = :version",
        version.description, dump_json(to_json(version.tags)), version.stage, audit.time,
        version.model_name.project, version.model_name.name, version.number));
    return touch(database_, version.model_name, audit.time);
  });
}

Result<void> Registry::remove(const Version& version, const Audit& audit) {
  return change(audit, [&]() -> Result<void> {
    for (const auto* table : {"model_versions", "model_aliases"})
      TRY(database_.execute(format("delete from {} where project = :project and name = :name and "
                                   "version = :version",
                                   table),
                            version.model_name.project, version.model_name.name, version.number));
    return touch(database_, version.model_name, audit.time);
  });
}

Result<void> Registry::set_alias(const ModelName& id, const Text& alias, std::optional<Int> number,
                                 const Audit& audit) {
  const Model model = TRY(find(id));
  if (!number) {
    if (!model.aliases.contains(alias)) return {};
    return change(audit, [&] {
      return database_.execute(
          "delete from model_aliases where project = :project and name = :name and alias = :alias",
          id.project, id.name, alias);
    });
  }
  TRY(check_alias(alias));
  TRY(find(id, *number));
  if (model.aliases.size() >= kAliasesMax && !model.aliases.contains(alias))
    return Error{Code::invalid, format("a model has at most {} aliases", kAliasesMax)};
  return change(audit, [&] {
    return database_.execute(
        "insert into model_aliases (project, name, alias, version) values (:project, :name, "
        ":alias, :version) on conflict do update set version = excluded.version",
        id.project, id.name, alias, *number);
  });
}

}  // namespace lockstep::registry
