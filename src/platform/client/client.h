// Client: typed calls to the daemon, used by the CLI (user's token) and by agents (attempt's
// token). Blocking; every call has a bound.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "net/http/upgrade.h"
#include "platform/api/json.h"
#include "platform/api/messages.h"
#include "platform/api/paths.h"
#include "platform/api/routes.h"
#include "platform/host/home.h"
#include "platform/host/join_token.h"
#include "text/json.h"

namespace lockstep::client {

// A unique id for SubmitRequest::request_id.
std::string new_request_id();

// Called about five times a second while an answer is late, from one second on: with the url and
// the time. Empty: the wait is over.
struct LateAnswer {
  std::string url;
  Duration waited{};
};
using WhenLate = std::function<void(const std::optional<LateAnswer>& late)>;

// Whose token it is: the daemon must prove that it knows this one. Empty: the user's.
struct TokenOwner {
  bool none = false;  // there is no token
  std::optional<model::AttemptName> attempt{};
  std::string host{};                     // the credential of this host
  std::optional<host::JoinToken> join{};  // this token
};

// The parameters of a route's path: the run, the node, the host or the user that it names.
struct Path {
  std::vector<std::string> words;
  Path() = default;
  static Path of_host(std::string host);
  static Path of_name(std::string name);  // of a user, a project or a token
  static Path of(std::vector<std::string> words);
  Path(const model::RunId& run);
  Path(const model::NodeId& node);
};

// The arguments of a route: its path's parameters, its query and its request.
template <class Route>
struct Arguments {
  Path path{};
  typename Route::Query query{};
  typename Route::Request request{};
};

class Client {
 public:
  // For users: reads the daemon's address and the user's token from `home`. Code::unavailable if no
  // daemon answers, Code::timeout if one exists but does not answer, Code::corrupt if the file with
  // its address cannot be read.
  static Result<Client> open(const host::Home& home, WhenLate when_late = {});
  // With the token of this owner. The server at the url must prove that it knows the
  // token before the token is sent. Otherwise each call fails with Code::unavailable. An https url
  // may have the fingerprint of the certificate to trust; else `authorities`, as TlsTrust has them.
  Client(const std::string& url, std::string token, TokenOwner owner = {},
         std::string authorities = {});
  // For a log-in: without a token, so that the daemon proves itself by its certificate alone.
  static Client without_token(const std::string& url, std::string authorities);
  // For users of another machine; not called yet. Errors name the address.
  static Client to_daemon(const std::string& url, std::string token, std::string authorities,
                          WhenLate when_late);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // Without the fingerprint.
  const std::string& url() const;
  // The last call was sent, at least in part, and not answered: its effect is unknown.
  bool was_sent() const;

  // Makes the call that the route declares (api/routes.h), and repeats nothing:
  //   client.call(api::kStop, {.path = id, .request = {.reason = "too slow"}})
  // An answer that its query delays is awaited by that much longer, or until the deadline.
  template <class Route>
  Result<typename Route::Answer> call(const Route& route, const Arguments<Route>& arguments = {},
                                      std::optional<Deadline> deadline = std::nullopt);

  // Submits the run once: if the connection is lost before the answer, the call is repeated with
  // the same request id, which is generated if the request has none.
  Result<api::RunView> submit(api::SubmitRequest request);
  // A byte stream to a node of the run, in the frames of net/stream. Waits until the node's agent
  // has called, 10 s at most. After success this client can only be destroyed.
  Result<net::UpgradedConnection> open_stream(const model::RunId& run, int node,
                                              const api::StreamQuery& target);
  // The agent's end of one that the daemon ordered; the same holds.
  Result<net::UpgradedConnection> open_node_stream(const model::NodeName& node,
                                                   const std::string& id, const Deadline& deadline);
  // By an agent. Answers, or fails at the deadline, which must be later than
  // heartbeat.wait_seconds. An older daemon gets the fields that it accepts.
  Result<api::HeartbeatAnswer> heartbeat(const api::Heartbeat& heartbeat, const Deadline& deadline);
  // The version of heartbeats that the daemon reads, as of the last call that it answered.
  int heartbeat_version() const;

 private:
  static Result<Client> open_elsewhere(const host::Home& home, const host::DaemonFile& there,
                                       WhenLate when_late);

  // A call's parts without their types.
  struct Call {
    const api::Route& route;
    const std::vector<std::string>& path;
    api::Query query;
    std::string body;                          // empty: none
    std::function<std::string()> make_body{};  // once the daemon has proven itself, instead of it
    Duration wait{};                           // the delay that it permits
    std::optional<Deadline> deadline;
  };
  template <class Route>
  Result<typename Route::Answer> answer_of(const Call& call);
  Result<Json> send(const Call& call);
  Result<net::UpgradedConnection> upgrade(const Call& call);
  Error unreadable(const Error& error) const;

  class Connection;
  std::unique_ptr<Connection> connection_;
};

template <class Route>
Result<typename Route::Answer> Client::call(const Route& route, const Arguments<Route>& arguments,
                                            std::optional<Deadline> deadline) {
  Call call{.route = route,
            .path = arguments.path.words,
            .query = to_query(arguments.query),
            .body = {},
            .deadline = std::move(deadline)};
  if constexpr (!std::same_as<typename Route::Request, api::None>)
    call.body = dump_json(without_nulls(to_json(arguments.request)));
  if constexpr (requires { arguments.query.wait_seconds; })
    call.wait = from_seconds(arguments.query.wait_seconds);
  return answer_of<Route>(call);
}

// A daemon may be newer than its caller: agents outlive the daemon that started them.
template <class Route>
Result<typename Route::Answer> Client::answer_of(const Call& call) {
  auto read = from_json<typename Route::Answer>(TRY(send(call)), UnknownFields::ignore);
  if (!read) return unreadable(read.error());
  return read;
}

}  // namespace lockstep::client
