#include "platform/server/calls/run_calls.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "base/log.h"
#include "platform/core/step/starting/preconditions.h"
#include "platform/registry/registry.h"
#include "platform/run_query/query.h"
#include "platform/server/calls/model_calls.h"
#include "platform/server/queue_views.h"
#include "platform/server/run_filter.h"
#include "platform/server/run_selection.h"
#include "platform/server/views.h"

namespace lockstep::server {
namespace {

// A client has the spec of another run with hidden values.
Result<void> fill_hidden_values(const model::Run& source, model::RunSpec& spec) {
  if (model::is_external(source))
    return Error{Code::invalid, format("{} was started by {}: Lockstep cannot start another run "
                                       "from its specification",
                                       text(source.id), source.launcher)};
  for (auto& [name, value] : spec.env) {
    if (value != api::kHiddenValue) continue;
    const auto found = source.spec.env.find(name);
    if (found == source.spec.env.end())
      return Error{Code::invalid, format("env: {} has no variable {} whose value could be kept; "
                                         "give a value",
                                         text(source.id), name)};
    value = found->second;
  }
  return {};
}

// "stage=final, no owner, a note of 12 bytes", for the audit.
std::string annotation_text(const model::Tags& tags, const std::optional<std::string>& note) {
  std::vector<std::string> changes;
  for (const auto& [key, value] : tags)
    changes.push_back(value.empty() ? "no " + key : format("{}={}", key, value));
  if (note) changes.push_back(format("a note of {} bytes", note->size()));
  return joined(changes, ", ");
}

}  // namespace

// A client cannot choose the user. A run that the caller may not read is no run for it to wait for.
Result<api::SubmitRequest> RunCalls::submission(const Principal& caller,
                                                api::SubmitRequest request) const {
  const identity::Directory& directory = context_.accounts().directory();
  model::RunSpec& spec = request.spec;
  request.origin.user = caller.name;
  request.origin.forked_from.reset();
  spec.project = TRY(identity::project_of_submission(directory, caller.bearer, spec.project));
  TRY(secrets_.check_secrets_of(spec));
  for (std::string& name : spec.after) {
    model::RunId run = TRY(model::parse_run_id(name));
    run.project = identity::readable_project(directory, caller.bearer, run.project);
    if (!identity::can_read(directory, caller.bearer, run.project))
      return step::no_such_dependency(run);
    name = text(run);
  }
  return request;
}

model::ProjectKind RunCalls::kind_of_project(const std::string& name) const {
  const auto& projects = context_.accounts().directory().projects;
  const auto project = projects.find(name);
  return project != projects.end() && !project->second.owner.empty() ? model::ProjectKind::personal
                                                                     : model::ProjectKind::shared;
}

Result<api::RunView> RunCalls::submit(const RouteCall<api::kSubmit>& call) {
  const auto request = TRY(submission(call.caller, call.request));
  return start(call.caller, request,
               context_.record(call, {.project = request.spec.project, .after = "queued"}));
}

Result<api::RunView> RunCalls::fork(const RouteCall<api::kFork>& call) {
  const model::RunId source = TRY(run_of(call.path_parameters));
  api::SubmitRequest changed = call.request;
  TRY(fill_hidden_values(*TRY(context_.find_run(source)), changed.spec));
  auto request = TRY(submission(call.caller, std::move(changed)));
  request.origin.forked_from = text(source);
  const auto& before = *TRY(context_.find_run(source));
  if (request.spec.upload && request.spec.upload == before.spec.upload) {  // the same files
    request.origin.git_commit = before.origin.git_commit;
    request.origin.git_dirty = before.origin.git_dirty;
  }
  return start(call.caller, request,
               context_.record(call, {.project = request.spec.project,
                                      .after = format("queued, forked from {}", text(source))}));
}

Result<api::RunView> RunCalls::start(const Principal& caller, const api::SubmitRequest& request,
                                     const model::AuditRecord& record) {
  const auto& uploaded = request.spec.upload;
  if (uploaded) TRY(TRY(uploads_of(context_))->check_complete(caller.name, *uploaded));
  const model::RunId run = TRY(context_.limited(
      caller, context_.controller().submit(request.spec, request.origin, request.request_id, record,
                                           kind_of_project(request.spec.project))));
  if (TRY(context_.find_run(run))->origin.user != caller.name)
    return Error{Code::invalid,
                 "request_id: another user has used it; choose a new id for each "
                 "run"};
  if (uploaded)  // tried again when an agent asks
    if (const auto kept = context_.setup().uploads->keep_manifest(*TRY(context_.find_run(run)));
        !kept)
      LS_LOG(warning, "the uploaded folder of {}: {}", text(run), kept.error().message);
  return context_.view(caller, run);
}

Result<api::ExternalNode> RunCalls::attach_external_node(
    const RouteCall<api::kExternalNode>& call) {
  const api::ExternalNodeRequest& request = call.request;
  const auto run = TRY(submission(call.caller, {.spec = request.spec, .origin = request.origin}));
  const model::AgentIncarnation agent{.id = request.incarnation,
                                      .machine = request.machine,
                                      .started = request.agent_started.value_or(context_.now())};
  const model::NodeId node = TRY(context_.controller().attach(
      {.job = request.job,
       .launcher = request.launcher,
       .spec = run.spec,
       .origin = run.origin,
       .agent = agent,
       .ranks = request.ranks},
      context_.record(call,
                      {.target = request.job, .project = run.spec.project, .after = "attached"})));
  const model::AttemptName attempt = name_of(context_.state().attempts.at(node.attempt));
  return api::ExternalNode{.run = text(node.attempt.run),
                           .node = text(node),
                           .generation = attempt.generation,
                           .token = context_.setup().keys.agent_token(attempt)};
}

namespace {

// "1764370000000000/demo/42": when the run was submitted, or its value, and its name.
template <class Number>
Result<std::pair<Number, model::RunId>> place_in_list(std::string_view after) {
  const auto invalid = Error{Code::invalid, "after: it is no `next` of a list of these runs"};
  const std::size_t slash = after.find('/');
  if (slash == std::string_view::npos) return invalid;
  Number number{};
  const char* end = after.data() + slash;
  const auto [read, failed] = std::from_chars(after.data(), end, number);
  const auto run = model::parse_run_id(after.substr(slash + 1));
  if (failed != std::errc() || read != end || !run) return invalid;
  return std::pair(number, *run);
}

// Runs in a state that is not final are few, and in memory.
model::RunFilter among_open_runs(model::RunFilter filter, const model::State& state) {
  if (!filter.state || model::is_final(*filter.state)) return filter;
  filter.runs.emplace();
  for (const model::RunId& run : state.open)
    if (state.runs.at(run).state == *filter.state) filter.runs->push_back(run);
  return filter;
}

store::MetricOrder order_of(const api::RunsQuery& query) {
  using enum store::MetricValue;
  const auto value = query.value.value_or(api::SortValue::last);
  return {.metric = *query.sort,
          .value = value == api::SortValue::min   ? least
                   : value == api::SortValue::max ? greatest
                                                  : last,
          .descending = query.descending.value_or(false)};
}

}  // namespace

// The newest runs, without the one more.
Result<RunCalls::FoundRuns> RunCalls::newest_runs(const api::RunsQuery& query,
                                                  model::RunFilter filter) {
  if (query.value || query.descending)
    return Error{Code::invalid, "value and descending are about a list with sort=METRIC"};
  if (query.after) {
    const auto [submitted, run] = TRY(place_in_list<std::int64_t>(*query.after));
    filter.after = {Time(Duration(submitted)), run};
  }
  FoundRuns found{.runs = TRY(context_.controller().list_runs(filter))};
  if (std::ssize(found.runs) <= query.limit) return found;
  found.runs.pop_back();
  const model::Run& last = found.runs.back();
  found.next = format("{}/{}", last.submitted.time_since_epoch().count(), text(last.id));
  return found;
}

Result<RunCalls::FoundRuns> RunCalls::sorted_runs(const api::RunsQuery& query,
                                                  const model::RunFilter& filter) {
  store::MetricOrder order = order_of(query);
  if (query.after) {
    const auto [value, run] = TRY(place_in_list<double>(*query.after));
    order.after = {run, value};
  }
  auto ranked =
      TRY(context_.insight().ranked_runs(among_open_runs(filter, context_.state()), order));
  FoundRuns found;
  if (std::ssize(ranked) > query.limit) {
    ranked.pop_back();
    found.next = format("{}/{}", ranked.back().value, text(ranked.back().run));
  }
  std::vector<model::RunId> ids;
  for (const auto& [run, value] : ranked) ids.push_back(run);
  auto rows = TRY(rows_of(std::move(ids)));
  for (const auto& [run, value] : ranked)
    if (const auto row = rows.find(run); row != rows.end()) {
      found.runs.push_back(std::move(row->second));
      found.values.push_back(value);
    }
  return found;
}

Result<std::map<model::RunId, model::Run>> RunCalls::rows_of(std::vector<model::RunId> runs) {
  model::RunFilter those{.limit = std::max(1, static_cast<int>(runs.size()))};
  those.runs = std::move(runs);
  std::map<model::RunId, model::Run> rows;
  for (model::Run& run : TRY(context_.controller().list_runs(those)))
    rows.emplace(run.id, std::move(run));
  return rows;
}

Result<RunCalls::FoundRuns> RunCalls::queried_runs(const Principal& caller,
                                                   const api::RunsQuery& query) {
  const store::SelectedRuns selected = TRY(select_runs(context_, caller, query));
  FoundRuns found{.next = selected.next};
  const auto line = TRY(run_query::parse_query(*query.query));
  if (line.group) {
    found.groups = groups_of(selected.runs);
    return found;
  }
  std::vector<model::RunId> ids;
  for (const store::SelectedRun& each : selected.runs) ids.push_back(each.run);
  auto rows = TRY(rows_of(std::move(ids)));
  for (const store::SelectedRun& each : selected.runs)
    if (const auto row = rows.find(each.run); row != rows.end()) {
      found.runs.push_back(std::move(row->second));
      if (line.sort) found.sorted.push_back(run_query::text(each.sorted));
    }
  return found;
}

Result<RunCalls::FoundRuns> RunCalls::found_runs(const Principal& caller,
                                                 const api::RunsQuery& query) {
  if (query.query) return queried_runs(caller, query);
  const auto filter = readable_runs(context_, caller, query);
  if (!filter) return FoundRuns();
  return query.sort ? sorted_runs(query, *filter) : newest_runs(query, *filter);
}

Result<api::RunList> RunCalls::runs(const RouteCall<api::kRuns>& call) {
  FoundRuns found = TRY(found_runs(call.caller, call.query));
  std::vector<model::RunId> ids;
  for (const model::Run& run : found.runs) ids.push_back(run.id);
  auto summary = TRY(context_.insight().summaries(ids));
  api::RunList list{.runs = {},
                    .problems = context_.problems(),
                    .notices = context_.controller().notices(),
                    .next = found.next,
                    .values = std::move(found.values),
                    .sorted = std::move(found.sorted),
                    .groups = std::move(found.groups)};
  if (call.query.query)
    if (auto problem = unread_runs_problem(context_); !problem.empty())
      list.problems.push_back(std::move(problem));
  for (const model::Run& run : found.runs)
    list.runs.push_back(run_view(context_.state(), run, std::move(summary.at(run.id)),
                                 context_.controller().checkpoint_folder(run), context_.now()));
  add_wait_reasons(list.runs, found.runs, context_.controller().scheduler());
  return context_.limited(call.caller, std::move(list));
}

Result<void> RunCalls::run(const RouteCall<api::kRun>& call, const Reply<api::RunView>& reply) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.find_run(id));
  const auto look = [this, id, reply, query = call.query,
                     caller = call.caller](LongPolls::AttemptKind turn) {
    const auto run = context_.find_run(id);
    if (turn == LongPolls::AttemptKind::early && run && (*run)->version <= query.after_version)
      return reply.is_abandoned();
    reply.send(query.brief.value_or(false) ? context_.brief_view(caller, id)
                                           : context_.view(caller, id));
    return true;
  };
  long_polls_.wait(id, from_seconds(call.query.wait_seconds), look);
  return {};
}

Result<api::RunView> RunCalls::stop(const RouteCall<api::kStop>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.controller().stop(
      id, call.request.reason,
      context_.run_record(
          call, id, call.request.reason.empty() ? "stopped" : "stopped: " + call.request.reason)));
  return context_.view(call.caller, id);
}

Result<api::RunView> RunCalls::resume(const RouteCall<api::kResume>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.limited(call.caller,
                       context_.controller().resume(id, context_.run_record(call, id, "queued"))));
  return context_.view(call.caller, id);
}

Result<api::RemovedRun> RunCalls::remove(const RouteCall<api::kRemove>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  const std::string folder = TRY(context_.find_run(id))->spec.checkpoint_folder;
  TRY(check_no_models(registry::Registry(context_.setup().database), id));
  TRY(context_.limited(call.caller,
                       context_.controller().remove(id, context_.run_record(call, id, ""))));
  return api::RemovedRun{.run = text(id), .checkpoint_folder = folder};
}

Result<api::RunView> RunCalls::hold(const RouteCall<api::kHold>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.controller().apply_operator_event(
      model::HoldRun{id, actor_of(call.caller), call.request.reason},
      context_.run_record(call, id,
                          call.request.reason.empty() ? "held" : "held: " + call.request.reason)));
  return context_.view(call.caller, id);
}

Result<api::RunView> RunCalls::release(const RouteCall<api::kRelease>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.controller().apply_operator_event(model::ReleaseRun{id, actor_of(call.caller)},
                                                 context_.run_record(call, id, "released")));
  return context_.view(call.caller, id);
}

Result<api::RunView> RunCalls::priority(const RouteCall<api::kPriority>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  auto record = context_.run_record(call, id, format("priority {}", call.request.priority));
  if (const auto run = context_.state().runs.find(id); run != context_.state().runs.end())
    record.before = format("priority {}", run->second.priority);
  TRY(context_.controller().apply_operator_event(
      model::SetPriority{id, call.request.priority, actor_of(call.caller)}, record));
  return context_.view(call.caller, id);
}

Result<api::RunView> RunCalls::extend(const RouteCall<api::kExtend>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.controller().apply_operator_event(
      model::ExtendRun{id, call.request.extension, actor_of(call.caller)},
      context_.run_record(call, id, "extended by " + text(call.request.extension))));
  return context_.view(call.caller, id);
}

Result<api::RunView> RunCalls::annotate(const RouteCall<api::kAnnotate>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.find_run(id));
  const model::Tags tags = call.request.tags.value_or(model::Tags());
  TRY(context_.controller().apply_operator_event(
      model::AnnotateRun{id, tags, call.request.note},
      context_.run_record(call, id, annotation_text(tags, call.request.note))));
  return context_.view(call.caller, id);
}

Result<api::QueueView> RunCalls::queue(const RouteCall<api::kQueue>& call) {
  auto view = queue_view(context_.state(), context_.controller().scheduler(), call.query.limit,
                         context_.now());
  view.problems = context_.problems();
  view.notices = context_.controller().notices();
  return context_.limited(call.caller, std::move(view));
}

Result<api::PlanView> RunCalls::plan(const RouteCall<api::kPlan>& call) {
  const auto request = TRY(submission(call.caller, call.request));
  const step::DryRunResult result = TRY(context_.limited(
      call.caller, context_.controller().plan(request.spec, request.origin,
                                              kind_of_project(request.spec.project))));
  return context_.limited(call.caller, plan_view(result, request.spec, context_.state()));
}

Result<UploadStore*> uploads_of(const CallContext& context) {
  if (context.setup().uploads != nullptr) return context.setup().uploads;
  return Error{Code::invalid, "this daemon takes no folders"};
}

Result<api::UploadAnswer> RunCalls::upload(const RouteCall<api::kUpload>& call) {
  return TRY(uploads_of(context_))
      ->add_manifest(call.caller.name, call.request.manifest,
                     context_.state().settings.upload_limit);
}

Result<api::UploadStored> RunCalls::upload_parts(const RouteCall<api::kUploadParts>& call) {
  return api::UploadStored{
      .files = TRY(TRY(uploads_of(context_))->add_parts(call.caller.name, call.request.parts))};
}

}  // namespace lockstep::server
