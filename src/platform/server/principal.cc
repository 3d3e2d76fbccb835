#include "platform/server/principal.h"

#include <string_view>

#include "base/format.h"
#include "platform/api/agent_messages.h"
#include "platform/identity/token.h"
#include "platform/server/route_call.h"

namespace lockstep::server {
namespace {

using Kind = Principal::Kind;

// The token of `Authorization: Bearer TOKEN`; empty if there is none.
std::string_view bearer_token(const net::HttpRequest& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const auto header = request.headers.find("Authorization").value_or("");
  const std::string_view scheme = header.substr(0, kScheme.size());
  return net::equal_ignoring_case(scheme, kScheme) ? header.substr(kScheme.size()) : "";
}

// The page has it as a cookie; the gate refuses one of another page.
std::string user_token(const net::HttpRequest& request) {
  return is_by_session(request) ? session_cookie_of(request).token
                                : std::string(bearer_token(request));
}

// An agent's token is that of the attempt in the path, of the generation in the query.
std::optional<std::string> agent_name(const host::Keys& keys, const net::HttpRequest& request,
                                      const std::vector<std::string>& path_parameters) {
  const auto node = node_of(path_parameters);
  const auto query = from_query<api::HeartbeatQuery>(request.query, UnknownFields::ignore);
  if (!node || !query) return std::nullopt;
  const model::AttemptName attempt{query->generation.value_or(""), node->attempt};
  if (!keys.is_agent_token(attempt, bearer_token(request))) return std::nullopt;
  return text(attempt);
}

std::optional<std::string> host_name(const Credentials& credentials,
                                     const net::HttpRequest& request,
                                     const std::vector<std::string>& path_parameters) {
  if (path_parameters.empty() || credentials.state == nullptr) return std::nullopt;
  const std::string& host = path_parameters.front();
  const int number = host_credential(*credentials.state, host);
  if (number == 0 || !credentials.keys.is_host_token(host, number, bearer_token(request)))
    return std::nullopt;
  return host;
}

// The step decides whether it was used already: it knows the claim of the caller.
std::optional<host::JoinToken> join_token(const Credentials& credentials,
                                          const net::HttpRequest& request,
                                          const std::vector<std::string>& path_parameters) {
  const auto token = host::parse_join_token(bearer_token(request));
  if (!token || path_parameters.empty() || token->host != path_parameters.front() ||
      token->end <= credentials.now || !credentials.keys.is_join_token(*token))
    return std::nullopt;
  return *token;
}

}  // namespace

// The token in the daemon's folder is that of the daemon's own user.
std::optional<identity::Bearer> user_of(const Credentials& credentials, std::string_view token) {
  if (credentials.keys.is_user_token(token))
    return identity::Bearer{.user = credentials.directory.daemon_user};
  const identity::Token* row = identity::find_token(credentials.directory, token, credentials.now);
  if (row == nullptr) return std::nullopt;
  return identity::bearer_of(*row);
}

std::optional<Principal> principal_of(const Credentials& credentials, api::Caller caller,
                                      const net::HttpRequest& request,
                                      const std::vector<std::string>& path_parameters) {
  const host::Keys& keys = credentials.keys;
  const auto named = [&](Kind kind, std::optional<std::string> name) -> std::optional<Principal> {
    if (!name) return std::nullopt;
    return Principal{.kind = kind,
                     .name = *std::move(name),
                     .address = request.is_local ? "" : request.peer,
                     .session = session_cookie_of(request)};
  };
  switch (caller) {
    case api::Caller::anyone:
      return named(Kind::anyone, "");
    case api::Caller::user: {
      const auto bearer = user_of(credentials, user_token(request));
      auto user = named(Kind::user, bearer ? std::optional(bearer->user) : std::nullopt);
      if (user) user->bearer = *bearer;
      return user;
    }
    case api::Caller::agent:
      return named(Kind::agent, agent_name(keys, request, path_parameters));
    case api::Caller::host:
      return named(Kind::host, host_name(credentials, request, path_parameters));
    case api::Caller::joining:
      break;
  }
  const auto token = join_token(credentials, request, path_parameters);
  auto joining = named(Kind::joining, token ? std::optional(token->host) : std::nullopt);
  if (joining) joining->join = token;
  return joining;
}

std::optional<Principal> calling_rank(const Credentials& credentials,
                                      const net::HttpRequest& request) {
  const std::string_view token = bearer_token(request);
  const auto rank = host::rank_of_token(token);
  if (!rank || credentials.state == nullptr ||
      !net::equal_constant_time(credentials.keys.rank_token(*rank), token))
    return std::nullopt;
  const model::AttemptName& attempt = rank->attempt;
  const model::State& state = *credentials.state;
  const auto row = state.attempts.find(attempt.id);
  const auto run = state.runs.find(attempt.id.run);
  if (row == state.attempts.end() || run == state.runs.end() || row->second.ended ||
      row->second.generation != attempt.generation ||
      !identity::is_active(credentials.directory, run->second.origin.user))
    return std::nullopt;
  return Principal{.kind = Kind::user,
                   .name = run->second.origin.user,
                   .bearer = {.user = run->second.origin.user,
                              .token = text(attempt.id),
                              .project = attempt.id.run.project,
                              .role = identity::Role::member},
                   .address = request.is_local ? "" : request.peer,
                   .rank = rank};
}

int host_credential(const model::State& state, const std::string& host) {
  const auto row = state.hosts.find(host);
  return row == state.hosts.end() || row->second.claim.empty() ? 0 : row->second.credential;
}

std::string actor_of(const Principal& caller) {
  return caller.address.empty() ? caller.name : format("{} from {}", caller.name, caller.address);
}

}  // namespace lockstep::server
