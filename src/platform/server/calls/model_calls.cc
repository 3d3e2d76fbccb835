#include "platform/server/calls/model_calls.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/format.h"
#include "platform/identity/rights.h"
#include "platform/server/mlflow/model_tables.h"

namespace lockstep::server {
namespace {

using registry::ModelName;
using registry::Version;

constexpr std::size_t kNamedMax = 5;  // in an error
// Tags of a run that name its data.
constexpr std::string_view kDataTags[] = {"data", "dataset", "data_set"};

ModelName model_of(const std::vector<std::string>& path_parameters) {
  return {path_parameters[0], path_parameters[1]};
}

api::ModelVersionView version_view(Version version) {
  return {.project = std::move(version.model_name.project),
          .model = std::move(version.model_name.name),
          .version = version.number,
          .run = version.run ? std::optional(text(*version.run)) : std::nullopt,
          .step = version.step,
          .path = std::move(version.path),
          .source = std::move(version.source),
          .git_commit = std::move(version.git_commit),
          .git_dirty = version.git_dirty,
          .data_set = std::move(version.data_set),
          .user = std::move(version.user),
          .description = std::move(version.description),
          .tags = std::move(version.tags),
          .aliases = std::move(version.aliases),
          .created = version.created};
}

api::ModelView model_view(registry::Model model) {
  return {.project = std::move(model.id.project),
          .name = std::move(model.id.name),
          .user = std::move(model.user),
          .description = std::move(model.description),
          .tags = std::move(model.tags),
          .aliases = std::move(model.aliases),
          .last_version = model.last_version,
          .created = model.created,
          .updated = model.updated};
}

std::string target_of(const ModelName& id) { return format("{}/{}", id.project, id.name); }

// A source that has a version already is that version: the call may be a repeated one.
const Version* same_source(const std::vector<Version>& known, const Version& version) {
  const auto found = std::ranges::find_if(known, [&](const Version& one) {
    return one.run == version.run && one.step == version.step && one.path == version.path;
  });
  return found == known.end() ? nullptr : &*found;
}

}  // namespace

Result<void> check_no_models(registry::Registry registry, const model::RunId& run) {
  const auto versions = TRY(registry.versions_of(run));
  if (versions.empty()) return {};
  std::vector<std::string> names;
  for (const Version& version : versions)
    if (names.size() < kNamedMax) names.push_back(registry::text(version));
  return Error{Code::invalid,
               format("{} has {}{}: remove them first, such as by `lockstep model rm {}/{}`",
                      text(run), joined(names, ", "), versions.size() > kNamedMax ? ", ..." : "",
                      run.project, names.front())};
}

Result<api::ModelList> ModelCalls::list(const RouteCall<api::kModels>& call) {
  auto projects = context_.readable_projects(call.caller);
  if (call.query.project) {
    if (!identity::can_read(context_.accounts().directory(), call.caller.bearer,
                            *call.query.project))
      return identity::no_such_project(*call.query.project);
    projects = {*call.query.project};
  }
  auto found = TRY(registry_.models(projects));
  const auto limit = static_cast<std::size_t>(call.query.limit);
  api::ModelList list{.models = {}, .more = found.size() > limit};
  found.resize(std::min(found.size(), limit));
  std::ranges::transform(found, std::back_inserter(list.models),
                         [](registry::Model& model) { return model_view(std::move(model)); });
  return list;
}

Result<api::ModelView> ModelCalls::show(const RouteCall<api::kModel>& call) {
  const ModelName id = model_of(call.path_parameters);
  api::ModelView view = model_view(TRY(registry_.find(id)));
  const api::ModelQuery& query = call.query;
  if (query.version && query.alias)
    return Error{Code::invalid, "name a version or an alias, not both"};
  if (query.version || query.alias) {
    view.versions.push_back(version_view(TRY(query.version ? registry_.find(id, *query.version)
                                                           : registry_.find(id, *query.alias))));
    return view;
  }
  auto versions = TRY(registry_.versions(id));
  const auto limit = static_cast<std::size_t>(query.limit);
  view.more = versions.size() > limit;
  versions.resize(std::min(versions.size(), limit));
  for (Version& version : versions) view.versions.push_back(version_view(std::move(version)));
  return view;
}

Result<void> ModelCalls::find_source(const api::RegisterModelRequest& request,
                                     Version& version) const {
  const model::RunId& run = *version.run;
  if (request.artifact) {
    if (request.step) return Error{Code::invalid, "name a step or an artifact, not both"};
    version.path = TRY(artifacts::checked_path(*request.artifact));
    const auto found = context_.artifacts().find(run, version.path);
    if (found) return {};
    if (found.error().code != Code::not_found ||
        TRY(context_.artifacts().list(run, version.path)).empty())
      return found.error();
    return {};
  }
  const auto checkpoints = TRY(context_.insight().checkpoints(run));
  const auto found = request.step
                         ? std::ranges::find(checkpoints, *request.step, &api::Checkpoint::step)
                         : (checkpoints.empty() ? checkpoints.end() : checkpoints.end() - 1);
  if (found == checkpoints.end())
    return Error{Code::not_found,
                 request.step ? format("{} has no checkpoint of step {}; `lockstep checkpoint "
                                       "ls {}` lists them",
                                       text(run), *request.step, text(run))
                              : format("{} has no checkpoint", text(run))};
  version.step = found->step;
  version.path = found->path;
  return {};
}

Result<std::string> ModelCalls::data_set_of(const model::Run& run) const {
  for (const std::string_view tag : kDataTags)
    if (const auto found = run.tags.find(std::string(tag)); found != run.tags.end())
      return found->second;
  return mlflow::ModelTables(context_.setup().database).data_set_of(run.id);
}

Result<Version> ModelCalls::version_of(const RouteCall<api::kRegisterModel>& call) const {
  const api::RegisterModelRequest& request = call.request;
  model::RunId id = TRY(model::parse_run_id(request.run));
  id.project =
      identity::readable_project(context_.accounts().directory(), call.caller.bearer, id.project);
  Version version{.model_name = model_of(call.path_parameters),
                  .number = request.version.value_or(0),
                  .run = id,
                  .user = call.caller.name,
                  .description = request.description.value_or("")};
  if (request.version && *request.version < 1)
    return Error{Code::invalid, "version: is at least 1"};
  if (id.project != version.model_name.project)
    return Error{Code::invalid, format("run: {} is not of the project {}: a model has versions of "
                                       "its own project",
                                       text(id), version.model_name.project)};
  const model::Run* run = TRY(context_.find_run(id));
  version.git_commit = run->origin.git_commit;
  version.git_dirty = run->origin.git_dirty;
  version.data_set = request.data_set ? *request.data_set : TRY(data_set_of(*run));
  TRY(find_source(request, version));
  return version;
}

Result<api::ModelVersionView> ModelCalls::add(const RouteCall<api::kRegisterModel>& call) {
  Version version = TRY(version_of(call));
  const auto known = TRY(registry_.versions(version.model_name));
  if (const Version* same = same_source(known, version);
      same != nullptr && (version.number == 0 || version.number == same->number))
    return version_view(*same);
  const auto record = context_.record(
      call, {.project = version.model_name.project,
             .after = format("{} {}", text(*version.run),
                             version.step ? format("step {}", *version.step) : version.path)});
  auto added = registry_.add(std::move(version), registry::Registry::IfMissing::create, record);
  if (!added && added.error().code == Code::already_exists)
    return Error{Code::invalid, "version: " + added.error().message};
  return version_view(TRY(std::move(added)));
}

Result<api::ModelView> ModelCalls::set_alias(const RouteCall<api::kModelAlias>& call) {
  const ModelName id = model_of(call.path_parameters);
  const registry::Model before = TRY(registry_.find(id));
  const auto old = before.aliases.find(call.request.alias);
  const auto& version = call.request.version;
  TRY(registry_.set_alias(
      id, call.request.alias, version,
      context_.record(call, {.target = format("{}@{}", target_of(id), call.request.alias),
                             .project = id.project,
                             .before = old == before.aliases.end() ? "" : format("{}", old->second),
                             .after = version ? format("{}", *version) : ""})));
  return model_view(TRY(registry_.find(id)));
}

Result<void> ModelCalls::check_may_remove(const Principal& caller, const std::string& project,
                                          const std::string& user) const {
  const identity::Target target{.project = project, .owner = user};
  if (identity::may(context_.accounts().directory(), caller.bearer, identity::Action::control_run,
                    target))
    return {};
  return Error{Code::denied,
               identity::refusal(caller.bearer, identity::Action::control_run, target)};
}

// The user that made the model or the version, or a manager.
Result<api::RemovedModel> ModelCalls::remove(const RouteCall<api::kRemoveModel>& call) {
  const ModelName id = model_of(call.path_parameters);
  api::RemovedModel removed{.project = id.project, .model = id.name, .versions = 1};
  if (call.request.version) {
    const Version version = TRY(registry_.find(id, *call.request.version));
    TRY(check_may_remove(call.caller, id.project, version.user));
    TRY(registry_.remove(
        version, context_.record(call, {.target = format("{}/{}", id.project, text(version)),
                                        .project = id.project})));
    return removed;
  }
  const registry::Model model = TRY(registry_.find(id));
  TRY(check_may_remove(call.caller, id.project, model.user));
  removed.versions = std::ssize(TRY(registry_.versions(id)));
  TRY(registry_.remove(id,
                       context_.record(call, {.target = target_of(id),
                                              .project = id.project,
                                              .before = format("{} versions", removed.versions)})));
  return removed;
}

}  // namespace lockstep::server
