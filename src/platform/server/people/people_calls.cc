#include "platform/server/people/people_calls.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/format.h"
#include "platform/identity/changes.h"
#include "platform/server/people/gate.h"
#include "platform/server/people/people_views.h"

namespace lockstep::server {
namespace {

using identity::Changes;

constexpr Duration kTokenLifeMax = std::chrono::days(3650);

// A record of the call with what it is on.
template <const auto& kRoute>
model::AuditRecord record_on(const RouteCall<kRoute>& call, Time now, std::string target,
                             std::string project = "") {
  model::AuditRecord record = record_of(call.caller, kRoute, now);
  record.target = std::move(target);
  record.project = std::move(project);
  return record;
}

std::string role_text(const identity::Directory& directory, const std::string& project,
                      const std::string& user) {
  const auto member = directory.members.find({project, user});
  return member == directory.members.end() ? ""
                                           : format("{}: {}", user, name_of(member->second.role));
}

bool is_manager(const identity::Directory& directory, const identity::Bearer& bearer,
                const std::string& project) {
  return identity::role_in(directory, bearer, project) == identity::Role::manager;
}

std::vector<std::string> managed_projects(const identity::Directory& directory,
                                          const identity::Bearer& bearer) {
  std::vector<std::string> names;
  for (const auto& [name, project] : directory.projects)
    if (is_manager(directory, bearer, name)) names.push_back(name);
  return names;
}

}  // namespace

Result<api::WhoAmI> PeopleCalls::whoami(const RouteCall<api::kWhoAmI>& call) {
  const identity::Bearer& bearer = call.caller.bearer;
  const identity::User& user = *TRY(identity::require_user(directory(), bearer.user));
  api::WhoAmI view{.user = user.name,
                   .kind = user.kind,
                   .admin = identity::is_admin(directory(), bearer),
                   .token = bearer.token,
                   .token_ends = std::nullopt,
                   .projects = {},
                   .default_project = identity::default_project(directory(), bearer),
                   .address = call.caller.address};
  if (const auto token = directory().tokens.find(bearer.token); token != directory().tokens.end())
    view.token_ends = token->second.ends;
  for (const auto& [name, project] : directory().projects)
    if (const auto role = identity::role_in(directory(), bearer, name)) view.projects[name] = *role;
  return view;
}

// --- Users ---

Result<api::UserList> PeopleCalls::users(const RouteCall<api::kUsers>&) {
  return user_list(directory());
}

// The user would own the runs of the project of its name.
Result<api::UserView> PeopleCalls::add_user(const RouteCall<api::kAddUser>& call) {
  const std::string& name = call.request.name;
  auto changes = TRY(identity::add_user(directory(), name, clock_.now()));
  if (state_.numbers.contains(name))
    return Error{Code::already_exists,
                 format("there are runs of a project {}, which would be the user's own; choose "
                        "another name",
                        name)};
  if (call.request.admin) std::get<identity::User>(changes.front().row).admin = true;
  auto record = record_on(call, clock_.now(), name);
  record.after = summary(std::get<identity::User>(changes.front().row));
  TRY(accounts_.change(changes, record));
  return user_view(directory(), directory().users.at(name));
}

Result<api::UserView> PeopleCalls::change_user(const RouteCall<api::kChangeUser>& call) {
  const std::string& name = call.path_parameters.front();
  const std::string before = summary(*TRY(identity::require_user(directory(), name)));
  identity::Directory after = directory();
  Changes changes;
  const auto add = [&](Result<Changes> more) -> Result<void> {
    Changes rows = TRY(std::move(more));
    identity::apply(after, rows);
    std::ranges::move(rows, std::back_inserter(changes));
    return {};
  };
  if (call.request.admin) TRY(add(identity::set_admin(after, name, *call.request.admin)));
  if (call.request.disabled) TRY(add(identity::set_disabled(after, name, *call.request.disabled)));
  auto record = record_on(call, clock_.now(), name);
  record.before = before;
  record.after = summary(after.users.at(name));
  TRY(accounts_.change(changes, record));
  return user_view(directory(), directory().users.at(name));
}

Result<api::UserList> PeopleCalls::remove_user(const RouteCall<api::kRemoveUser>& call) {
  const std::string& name = call.path_parameters.front();
  auto record = record_on(call, clock_.now(), name);
  record.before = summary(*TRY(identity::require_user(directory(), name)));
  TRY(accounts_.change(TRY(identity::remove_user(directory(), name, clock_.now())), record));
  return user_list(directory());
}

// --- Projects ---

Result<api::ProjectList> PeopleCalls::projects(const RouteCall<api::kProjects>& call) {
  return project_list(directory(), call.caller.bearer);
}

Result<api::ProjectView> PeopleCalls::add_project(const RouteCall<api::kAddProject>& call) {
  const std::string& name = call.request.name;
  auto record = record_on(call, clock_.now(), name, name);
  record.after = "project";
  TRY(accounts_.change(TRY(identity::add_project(directory(), name, clock_.now())), record));
  return project_view(directory(), directory().projects.at(name));
}

Result<api::ProjectList> PeopleCalls::remove_project(const RouteCall<api::kRemoveProject>& call) {
  const std::string& name = call.path_parameters.front();
  auto record = record_on(call, clock_.now(), name, name);
  record.before = "project";
  TRY(accounts_.change(TRY(identity::remove_project(directory(), name, clock_.now())), record));
  return project_list(directory(), call.caller.bearer);
}

Result<api::ProjectView> PeopleCalls::set_member(const RouteCall<api::kSetMember>& call) {
  const std::string& project = call.path_parameters.front();
  const std::string& user = call.request.user;
  auto record = record_on(call, clock_.now(), project, project);
  record.before = role_text(directory(), project, user);
  if (call.request.role) record.after = format("{}: {}", user, name_of(*call.request.role));
  TRY(accounts_.change(TRY(identity::set_member(directory(), project, user, call.request.role)),
                       record));
  return project_view(directory(), directory().projects.at(project));
}

Result<api::UserView> PeopleCalls::add_service(const RouteCall<api::kAddService>& call) {
  const std::string& project = call.path_parameters.front();
  const std::string& name = call.request.name;
  auto record = record_on(call, clock_.now(), name, project);
  record.after = format("service account, {}", name_of(call.request.role));
  TRY(accounts_.change(
      TRY(identity::add_service(directory(), name, project, call.request.role, clock_.now())),
      record));
  return user_view(directory(), directory().users.at(name));
}

// --- Tokens ---

// Its own, those of service accounts by managers of their projects, all by an admin.
Result<void> PeopleCalls::check_tokens_of(const identity::Bearer& bearer,
                                          const std::string& user) const {
  if (user == bearer.user) return {};
  if (identity::is_admin(directory(), bearer)) {
    TRY(identity::require_user(directory(), user));
    return {};
  }
  const identity::User* other = identity::find_user(directory(), user);
  if (other != nullptr && !other->project.empty() &&
      is_manager(directory(), bearer, other->project))
    return {};
  return Error{Code::denied,
               format("{} may not manage the tokens of another user: it needs an admin, or for a "
                      "service account a manager of its project",
                      bearer.user)};
}

Result<api::TokenList> PeopleCalls::tokens(const RouteCall<api::kTokens>& call) {
  const std::string user = call.query.user.value_or(call.caller.bearer.user);
  TRY(check_tokens_of(call.caller.bearer, user));
  api::TokenList list;
  for (const identity::Token* token : identity::tokens_of(directory(), user))
    list.tokens.push_back(token_view(*token, clock_.now()));
  return list;
}

Result<api::NewTokenView> PeopleCalls::add_token(const RouteCall<api::kAddToken>& call) {
  const api::AddTokenRequest& request = call.request;
  const std::string user = request.user.value_or(call.caller.bearer.user);
  TRY(check_tokens_of(call.caller.bearer, user));
  const Time now = clock_.now();
  if (request.expires && (*request.expires <= Duration(0) || *request.expires > kTokenLifeMax))
    return Error{Code::invalid,
                 format("expires: must be over 0s and at most {}", text(kTokenLifeMax))};
  const identity::NewToken wanted{
      .user = user,
      .name = request.name,
      .project = request.project,
      .role = request.role,
      .ends = request.expires ? std::optional(now + *request.expires) : std::nullopt};
  const identity::TokenText token = identity::new_token();
  const Changes changes = TRY(identity::add_token(directory(), wanted, token, now));
  const auto& row = std::get<identity::Token>(changes.back().row);
  auto record = record_on(call, now, token.id, request.project);
  record.after = summary(row);
  TRY(accounts_.change(changes, record));
  return api::NewTokenView{.token = text(token), .about = token_view(row, now)};
}

// One that the caller may not know of is not found.
Result<api::TokenView> PeopleCalls::revoke_token(const RouteCall<api::kRevokeToken>& call) {
  const std::string& id = call.path_parameters.front();
  const auto found = directory().tokens.find(id);
  const bool may_revoke = found != directory().tokens.end() &&
                          check_tokens_of(call.caller.bearer, found->second.user).has_value();
  const Changes changes = TRY(identity::revoke_token(directory(), may_revoke ? id : ""));
  const identity::Token token = found->second;
  auto record = record_on(call, clock_.now(), id, token.project);
  record.before = summary(token);
  TRY(accounts_.change(changes, record));
  return token_view(token, clock_.now());
}

// --- The audit ---

Result<api::AuditList> PeopleCalls::audit(const RouteCall<api::kAudit>& call) {
  const api::AuditQuery& query = call.query;
  model::AuditFilter filter{.user = query.user,
                            .action = query.action,
                            .projects = std::nullopt,
                            .since = query.since,
                            .until = query.until,
                            .refused = query.refused,
                            .before = query.before,
                            .limit = query.limit + 1};
  const identity::Bearer& bearer = call.caller.bearer;
  if (query.project && !is_manager(directory(), bearer, *query.project))
    return Error{Code::denied, format("{} may not read the audit of the project {}: it needs a "
                                      "manager of it",
                                      bearer.user, *query.project)};
  if (query.project)
    filter.projects = {*query.project};
  else if (!identity::is_admin(directory(), bearer))
    filter.projects = managed_projects(directory(), bearer);
  api::AuditList list;
  for (const model::AuditRecord& record : TRY(accounts_.list_audit(filter)))
    list.records.push_back(audit_view(record));
  list.more = list.records.size() > static_cast<std::size_t>(query.limit);
  if (list.more) list.records.pop_back();
  return list;
}

}  // namespace lockstep::server
