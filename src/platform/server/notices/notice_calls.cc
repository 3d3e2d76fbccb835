#include "platform/server/notices/notice_calls.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/format.h"

namespace lockstep::server {
namespace {

using notice::Cause;
using notice::Scope;
using notice::TargetKind;

constexpr std::size_t kTargetsMax = 1'000;
constexpr std::size_t kTargetsOfUserMax = 100;

bool is_http(TargetKind kind) { return kind == TargetKind::webhook || kind == TargetKind::slack; }

api::NoticeTargetView notice_target_view(const store::NoticeTarget& row) {
  return {.id = row.target.id,
          .kind = row.target.kind,
          .to = row.shown,
          .scope = row.target.scope,
          .project = row.target.project,
          .user = row.target.user,
          .on = row.target.on,
          .added = row.added,
          .waiting = row.waiting,
          .dropped = row.dropped,
          .delivered = row.delivered,
          .problem = row.problem,
          .next_try = row.waiting > 0 ? std::optional(row.next_try) : std::nullopt};
}

std::string words_of(const store::NoticeTarget& row) {
  std::string causes;
  for (const Cause cause : row.target.on)
    causes += format("{}{}", causes.empty() ? "" : ",", name_of(cause));
  return format("{} {} for {} on {}", name_of(row.target.kind), row.shown,
                row.target.scope == Scope::own       ? "runs of " + row.target.user
                : row.target.scope == Scope::project ? "the project " + row.target.project
                                                     : std::string("all projects"),
                causes);
}

Error no_such_target(std::string_view id) {
  return {Code::not_found,
          format("there is no target {} of notices; `lockstep notice ls` lists them", id)};
}

Result<std::vector<Cause>> causes_of(const api::AddNoticeTargetRequest& request) {
  std::vector<Cause> causes =
      request.on.value_or(std::vector<Cause>{Cause::failed, Cause::budget, Cause::finding});
  std::ranges::sort(causes);
  causes.erase(std::ranges::unique(causes).begin(), causes.end());
  if (!causes.empty()) return causes;
  return Error{Code::invalid, "on: name at least one of ended, failed, budget and finding"};
}

Result<void> check_room_for_target(const std::vector<store::NoticeTarget>& targets,
                                   const std::string& user) {
  const auto of_user = static_cast<std::size_t>(std::ranges::count_if(
      targets, [&](const store::NoticeTarget& row) { return row.target.user == user; }));
  if (targets.size() < kTargetsMax && of_user < kTargetsOfUserMax) return {};
  return Error{Code::invalid,
               format("there are {} targets of notices, {} of {}; at most {} and {} of a user may "
                      "be there: remove one with `lockstep notice rm ID`",
                      targets.size(), of_user, user, kTargetsMax, kTargetsOfUserMax)};
}

}  // namespace

NoticeCalls::NoticeCalls(net::Loop& loop, const CallContext& context)
    : context_(context),
      outbox_(loop, context.setup().notices, context.setup().notifier, context.accounts(),
              context.setup().keys, context.setup().clock) {
  outbox_.start();
}

// A target of own runs without a project is for those of all projects: no token with bounds adds
// it.
Result<void> NoticeCalls::check_right(const identity::Bearer& bearer,
                                      const notice::Target& target) const {
  const identity::Directory& directory = context_.accounts().directory();
  const bool is_for_admins = target.scope == Scope::all || target.kind == TargetKind::command;
  const identity::Action action = is_for_admins ? identity::Action::manage_cluster
                                  : target.scope == Scope::project
                                      ? identity::Action::manage_project
                                      : identity::Action::submit_run;
  const identity::Target on{.project = is_for_admins ? "" : std::string_view(target.project)};
  if (identity::may(directory, bearer, action, on)) return {};
  if (!on.project.empty() && !identity::can_read(directory, bearer, on.project))
    return identity::no_such_project(on.project);
  return Error{Code::denied, identity::refusal(bearer, action, on)};
}

Result<notice::Target> NoticeCalls::target_of(const Principal& caller,
                                              const api::AddNoticeTargetRequest& request) const {
  const std::string project = request.project.value_or("");
  const Scope scope = request.scope.value_or(project.empty() ? Scope::own : Scope::project);
  if (scope == Scope::project && project.empty())
    return Error{Code::invalid, "project: name it, for the scope project"};
  if (scope == Scope::all && !project.empty())
    return Error{Code::invalid, "project: the scope all is for all projects: leave it out"};
  notice::Target target{
      .kind = request.kind,
      .scope = scope,
      .user = caller.bearer.user,
      .project = scope == Scope::own && project.empty() ? caller.bearer.project : project,
      .on = TRY(causes_of(request))};
  TRY(check_right(caller.bearer, target));
  if (!target.project.empty())
    TRY(identity::require_project(context_.accounts().directory(), target.project));
  return target;
}

bool NoticeCalls::may_change(const identity::Bearer& bearer, const notice::Target& target) const {
  if (identity::is_admin(context_.accounts().directory(), bearer)) return true;
  const bool is_own = target.user == bearer.user;
  return (is_own || target.scope == Scope::project) && check_right(bearer, target);
}

Result<api::NoticeTargetList> NoticeCalls::list_for(const Principal& caller) const {
  api::NoticeTargetList list;
  for (const store::NoticeTarget& row : TRY(store().targets()))
    if (may_change(caller.bearer, row.target)) list.targets.push_back(notice_target_view(row));
  return list;
}

Result<api::NoticeTargetList> NoticeCalls::list(const RouteCall<api::kNotices>& call) {
  return list_for(call.caller);
}

const store::NoticeTarget* NoticeCalls::same_as(const std::vector<store::NoticeTarget>& targets,
                                                const notice::Target& target,
                                                const std::string& where) const {
  const auto found = std::ranges::find_if(targets, [&](const store::NoticeTarget& row) {
    const notice::Target& other = row.target;
    const bool is_same =
        other.user == target.user && other.scope == target.scope &&
        other.project == target.project &&
        (other.kind == target.kind || (is_http(other.kind) && is_http(target.kind)));
    if (!is_same) return false;
    const auto opened = outbox_.open(row);
    return opened && *opened == where;
  });
  return found == targets.end() ? nullptr : &*found;
}

Result<api::NoticeTargetView> NoticeCalls::add(const RouteCall<api::kAddNotice>& call) {
  const api::AddNoticeTargetRequest& request = call.request;
  const notice::Target target = TRY(target_of(call.caller, request));
  TRY(outbox_.notifier().check(target.kind, request.where));
  const auto targets = TRY(store().targets());
  const store::NoticeTarget* known = same_as(targets, target, request.where);
  store::NoticeTarget row{.target = target,
                          .sealed = outbox_.seal(request.where),
                          .shown = notifier::shown_form(target.kind, request.where),
                          .added = context_.now()};
  auto record = context_.record(call, {.target = row.shown,
                                       .project = target.project,
                                       .before = known ? words_of(*known) : "",
                                       .after = words_of(row)});
  if (known) {
    row.target.id = known->target.id;
    TRY(store().change_target(row, record));
  } else {
    TRY(check_room_for_target(targets, target.user));
    row.target.id = TRY(store().add_target(row, record));
  }
  for (const store::NoticeTarget& stored : TRY(store().targets()))
    if (stored.target.id == row.target.id) return notice_target_view(stored);
  return no_such_target(format("{}", row.target.id));
}

Result<store::NoticeTarget> NoticeCalls::find(
    const Principal& caller, const std::vector<std::string>& path_parameters) const {
  const std::string& id = path_parameters.front();
  for (store::NoticeTarget& row : TRY(store().targets()))
    if (format("{}", row.target.id) == id && may_change(caller.bearer, row.target))
      return std::move(row);
  return no_such_target(id);
}

Result<api::NoticeTargetList> NoticeCalls::remove(const RouteCall<api::kRemoveNotice>& call) {
  const store::NoticeTarget row = TRY(find(call.caller, call.path_parameters));
  TRY(store().remove_target(row.target.id, context_.record(call, {.target = row.shown,
                                                                  .project = row.target.project,
                                                                  .before = words_of(row)})));
  return list_for(call.caller);
}

Result<void> NoticeCalls::test(const RouteCall<api::kTestNotice>& call,
                               const Reply<api::NoticeTestAnswer>& reply) {
  const store::NoticeTarget row = TRY(find(call.caller, call.path_parameters));
  const Time now = context_.now();
  const model::Notice sample{
      .id = format("{}.test.{}", context_.state().store.generation, now.time_since_epoch().count()),
      .kind = model::NoticeKind::finding,
      .time = now,
      .project = row.target.project,
      .user = call.caller.name,
      .reason = format("this is a test by {}", call.caller.name)};
  const bool begins = outbox_.deliver_now(row, sample, [reply](const notifier::Answer& answer) {
    reply.send(api::NoticeTestAnswer{.delivered = answer.is_delivered, .answer = answer.words});
  });
  if (begins) return {};
  return Error{Code::unavailable, "too many tests of notices wait; try again in a moment"};
}

}  // namespace lockstep::server
