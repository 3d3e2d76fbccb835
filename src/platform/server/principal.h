// Principal: the caller, as its token proves it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/http/http.h"
#include "platform/api/routes.h"
#include "platform/core/model/state.h"
#include "platform/host/keys.h"
#include "platform/host/rank_token.h"
#include "platform/identity/rights.h"
#include "platform/server/login/cookies.h"

namespace lockstep::server {

struct Principal {
  enum class Kind {
    anyone,  // no token was needed
    user,
    agent,    // of an attempt
    host,     // the service of a host, which starts agents there
    joining,  // a machine that joins the cluster
  };
  Kind kind = Kind::anyone;
  std::string name{};                     // of the user, the attempt or the host
  identity::Bearer bearer{};              // of a user
  std::optional<host::JoinToken> join{};  // of a machine that joins
  std::string address{};    // from which another machine calls; empty: this machine calls
  SessionCookie session{};  // of the caller's browser; its token is not checked
  std::optional<host::RankName> rank{};  // this rank calls, by its own token
};

// The credentials that the gate compares.
struct Credentials {
  const host::Keys& keys;
  const identity::Directory& directory;
  const model::State* state = nullptr;  // has the numbers of the hosts' credentials; null: none
  Time now{};
};

// The user of this token; nothing if it is none, or its user is disabled.
std::optional<identity::Bearer> user_of(const Credentials& credentials, std::string_view token);

// The caller of a route whose path has these parameters; nothing if the token is not one for it.
std::optional<Principal> principal_of(const Credentials& credentials, api::Caller caller,
                                      const net::HttpRequest& request,
                                      const std::vector<std::string>& path_parameters);

// The user of a run, one of whose ranks calls: a member of the run's project while the attempt goes
// on. Nothing if the token is none of a rank.
std::optional<Principal> calling_rank(const Credentials& credentials,
                                      const net::HttpRequest& request);

// The number of the credential with which the host's service calls; 0: it has none.
int host_credential(const model::State& state, const std::string& host);

// The user with the address from which it calls: "ann", or "ann from 10.0.0.5".
std::string actor_of(const Principal& caller);

}  // namespace lockstep::server
