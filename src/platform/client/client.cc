#include "platform/client/client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/os/files.h"
#include "base/units.h"
#include "net/crypto.h"
#include "net/http/http_client.h"
#include "net/http/url.h"
#include "platform/api/error.h"
#include "platform/api/heartbeat_version.h"
#include "platform/api/proof.h"
#include "platform/identity/token.h"

namespace lockstep::client {
namespace {

// In addition to the time for which the server may delay the answer.
constexpr Duration kPatience = std::chrono::seconds(30);
constexpr Duration kLate = std::chrono::seconds(1);
constexpr Bytes kAnswerMax = 64_MiB;

// A stored Url may be invalid: a daemon file may be damaged.
net::Url url_or_nowhere(const std::string& words) {
  return net::parse_url(words).value_or(net::Url{.host = "127.0.0.1", .port = 1});
}

// The daemon has proven its identity, so it has another version, or its answer was manipulated.
Error unreadable_answer(const Error& error, const std::string& url) {
  return {Code::corrupt, format("the answer of {}: {}", url, error.message)};
}

Result<Json> json_of(const net::HttpResponse& answer, const std::string& url) {
  if (answer.status >= 400) return api::error_of(answer.status, answer.body);
  auto json = parse_json(answer.body);
  if (!json) return unreadable_answer(json.error(), url);
  return json;
}

// A call of a user that may change something, and is known by the route's errors to do so.
bool is_change(const api::Route& route) {
  return route.method == "POST" && route.caller == api::Caller::user &&
         route.errors != api::RouteErrors::none;
}

}  // namespace

Path::Path(const model::RunId& run) : words{run.project, format("{}", run.number)} {}
Path::Path(const model::NodeId& node) : Path(node.attempt.run) {
  words.push_back(format("{}", node.attempt.epoch));
  words.push_back(format("{}", node.index));
}

Path Path::of_host(std::string host) {
  Path path;
  path.words.push_back(std::move(host));
  return path;
}

Path Path::of_name(std::string name) { return of_host(std::move(name)); }

Path Path::of(std::vector<std::string> words) {
  Path path;
  path.words = std::move(words);
  return path;
}

std::string new_request_id() { return net::random_hex(16); }

class Client::Connection {
 public:
  Connection(const std::string& url, std::string token, TokenOwner owner, std::string authorities)
      : server_(url_or_nowhere(url)),
        url_(host::without_fingerprint(url)),
        token_(std::move(token)),
        owner_(std::move(owner)),
        http_(server_, kAnswerMax, handshake(),
              {.fingerprint = {}, .authorities = std::move(authorities)}) {}

  const std::string& url() const { return url_; }
  bool is_unanswered() const { return unanswered_; }
  bool was_sent() const { return sent_; }
  // The daemon's; known once it has proven itself.
  int heartbeat_version() const { return heartbeat_version_; }
  // Adds the state of an earlier try of the same call.
  void was_sent_before(bool sent) { sent_ |= sent; }

  // `daemon` is its name in errors.
  void set_daemon(std::string daemon, WhenLate when_late) {
    daemon_ = std::move(daemon);
    when_late_ = std::move(when_late);
    if (!when_late_) return;
    http_.on_waiting([this](Duration waited) {
      if (waited < server_wait_ + kLate) return;
      late_ = true;
      when_late_(LateAnswer{url_, waited - server_wait_});
    });
  }

  // Generation of the agent's attempt; none: it had none, or the caller is a user.
  std::optional<std::string> generation() const {
    return owner_.attempt && !owner_.attempt->generation.empty()
               ? std::optional(owner_.attempt->generation)
               : std::nullopt;
  }

  Result<Json> send(const Call& sent) { return json_of(TRY(exchange(sent, {})), url_); }

  Result<net::UpgradedConnection> upgrade(const Call& sent) {
    const auto answer = TRY(exchange(sent, net::upgrade_headers(api::kStreamProtocol)));
    if (answer.status == 101) return http_.take_connection();
    TRY(json_of(answer, url_));
    return Error{Code::corrupt, format("{} does not open streams; upgrade its daemon", url_)};
  }

 private:
  Result<net::HttpResponse> exchange(const Call& sent, net::Headers headers) {
    const api::Route& route = sent.route;
    const Deadline deadline = sent.deadline.value_or(Deadline::after(sent.wait + kPatience));
    net::HttpCall call{
        .method = std::string(route.method),
        .target = api::target_of(route.path, sent.path, sent.query),
        .headers = std::move(headers),
        // Heartbeats and reports of hosts are numbered, so a repeat has no effect.
        .repeatable = route.caller == api::Caller::agent || route.caller == api::Caller::host};
    if (route.caller != api::Caller::anyone) call.headers.add("Authorization", "Bearer " + token_);
    if (!sent.body.empty() || sent.make_body) {
      call.headers.add("Content-Type", "application/json");
      call.body = sent.body;
      call.make_body = sent.make_body;
    }
    server_wait_ = std::max(Duration(0), deadline.remaining() - kPatience);
    auto called = http_.call(call, deadline);
    unanswered_ = !called;
    sent_ = unanswered_ && http_.was_sent();
    if (std::exchange(late_, false)) when_late_(std::nullopt);
    if (!called && called.error().code == Code::timeout && !daemon_.empty())
      return Error{Code::timeout,
                   format("{} does not answer; it may be stopped or overloaded", daemon_)};
    return called;
  }

  std::optional<net::ConnectionHandshake> handshake() {
    if (owner_.none) return std::nullopt;
    return net::ConnectionHandshake{
        .call = [this] { return proof_call(); },
        .verify = [this](const auto& answer) { return check_proof(answer); }};
  }

  net::HttpCall proof_call() {
    nonce_ = api::new_nonce();
    api::HealthQuery query;
    query.nonce = nonce_;
    if (owner_.attempt) {
      query.attempt = text(owner_.attempt->id);
      query.generation = generation();
    }
    if (!owner_.host.empty()) query.host = owner_.host;
    if (owner_.join) query.join = host::join_token_subject(*owner_.join);
    if (const auto token = identity::parse_token(token_)) query.token = token->id;
    return {.target = api::target_of(api::kHealth.path, {}, to_query(query))};
  }

  Result<void> check_proof(const net::HttpResponse& answer) {
    const auto json = json_of(answer, url_);
    const auto health = json ? from_json<api::Health>(*json, UnknownFields::ignore)
                             : Result<api::Health>(json.error());
    const std::string right = api::daemon_proof(token_, server_.port, nonce_);
    if (health && net::equal_constant_time(health->proof.value_or(""), right)) {
      heartbeat_version_ = health->heartbeat_version;
      return {};
    }
    if (health && owner_.join)
      return Error{Code::denied, format("the daemon at {} did not make this join token", url_)};
    if (health && !owner_.host.empty())
      return Error{Code::denied,
                   format("the daemon at {} does not accept the credential of host {}: it was "
                          "removed, or has joined again elsewhere",
                          url_, owner_.host)};
    if (!json && json.error().code == Code::denied)
      return Error{Code::denied, format("{}: {}", url_, json.error().message)};
    // Its certificate is good.
    if (health && server_.scheme == net::Scheme::https)
      return Error{
          Code::unavailable,
          format("the daemon at {} does not accept this token; log in again with the token "
                 "of its folder",
                 url_)};
    // The daemon's own refusal: it speaks HTTPS.
    if (!json && json.error().code == Code::invalid)
      return Error{Code::unavailable, format("{}: {}", url_, json.error().message)};
    return Error{Code::unavailable,
                 format("what answers at {} is not the daemon that was started there", url_)};
  }

  const net::Url server_;
  const std::string url_;  // without the fingerprint
  const std::string token_;
  const TokenOwner owner_;
  std::string nonce_;  // of the connection that is being opened
  int heartbeat_version_ = 1;
  std::string daemon_;  // its name in errors
  WhenLate when_late_;
  Duration server_wait_{};  // the delay that the current call permits
  bool late_ = false;
  bool unanswered_ = false;  // of the last call
  bool sent_ = false;        // true if at least a part of the call was sent
  net::HttpClient http_;
};

Client::Client(const std::string& url, std::string token, TokenOwner owner, std::string authorities)
    : connection_(std::make_unique<Connection>(url, std::move(token), std::move(owner),
                                               std::move(authorities))) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

// The daemon of another machine, if it listens for others and its pointer contains the token.
Result<Client> Client::open_elsewhere(const host::Home& home, const host::DaemonFile& there,
                                      WhenLate when_late) {
  if (!there.network_url.empty() && !there.token.empty()) {
    Client client(there.network_url, there.token);
    client.connection_->set_daemon(format("the daemon on {} at {}", there.machine, client.url()),
                                   std::move(when_late));
    if (client.call(api::kHealth)) return client;
  }
  return host::daemon_elsewhere_error(home, there);
}

Client Client::to_daemon(const std::string& url, std::string token, std::string authorities,
                         WhenLate when_late) {
  Client client(url, std::move(token), {}, std::move(authorities));
  client.connection_->set_daemon(format("the daemon at {}", client.url()), std::move(when_late));
  return client;
}

Client Client::without_token(const std::string& url, std::string authorities) {
  Client client(url, "", {.none = true}, std::move(authorities));
  client.connection_->set_daemon(format("the daemon at {}", client.url()), {});
  return client;
}

Result<Client> Client::open(const host::Home& home, WhenLate when_late) {
  if (const auto there = host::daemon_elsewhere(home))
    return open_elsewhere(home, *there, std::move(when_late));
  auto file = host::read_daemon_file(home.daemon_file());
  if (!file && file.error().code == Code::not_found)
    return Error{Code::unavailable,
                 format("no daemon is running with the home {}", home.folder.string())};
  if (!file) return std::move(file).error();
  auto token = read_file(home.token_file());
  // A daemon that is starting, or one that was killed during its start, has none yet.
  if (!token) return Error{Code::unavailable, token.error().message};
  while (token->ends_with('\n')) token->pop_back();
  Client client(file->url, *std::move(token));
  client.connection_->set_daemon(format("the daemon (process {}) at {}", file->pid, client.url()),
                                 std::move(when_late));
  auto well = client.call(api::kHealth);
  if (well) return client;
  if (well.error().code == Code::timeout) return std::move(well).error();
  // Also if another program answers there: a daemon that was killed leaves its file behind.
  return Error{Code::unavailable, std::move(well).error().message};
}

const std::string& Client::url() const { return connection_->url(); }
bool Client::was_sent() const { return connection_->was_sent(); }

Result<Json> Client::send(const Call& call) {
  auto answer = connection_->send(call);
  if (answer || !connection_->is_unanswered() || !is_change(call.route)) return answer;
  const Error& error = answer.error();
  return Error{error.code, was_sent() ? error.message +
                                            "; it is not known whether it was done, "
                                            "and repeating the command is safe"
                                      : error.message + "; nothing was changed"};
}

Result<net::UpgradedConnection> Client::upgrade(const Call& call) {
  return connection_->upgrade(call);
}

Result<net::UpgradedConnection> Client::open_stream(const model::RunId& run, int node,
                                                    const api::StreamQuery& target) {
  Path path = run;
  path.words.push_back(format("{}", node));
  return upgrade({.route = api::kStream,
                  .path = path.words,
                  .query = to_query(target),
                  .body = {},
                  .deadline = std::nullopt});
}

Result<net::UpgradedConnection> Client::open_node_stream(const model::NodeName& node,
                                                         const std::string& id,
                                                         const Deadline& deadline) {
  Path path = node.id;
  path.words.push_back(id);
  return upgrade({.route = api::kNodeStream,
                  .path = path.words,
                  .query = to_query(api::HeartbeatQuery{connection_->generation()}),
                  .body = {},
                  .deadline = deadline});
}

Error Client::unreadable(const Error& error) const { return unreadable_answer(error, url()); }

Result<api::RunView> Client::submit(api::SubmitRequest request) {
  if (request.request_id.empty()) request.request_id = new_request_id();
  auto run = call(api::kSubmit, {.request = request});
  if (run || run.error().code != Code::unavailable) return run;
  const bool sent = was_sent();
  run = call(api::kSubmit, {.request = request});
  connection_->was_sent_before(sent && connection_->is_unanswered());
  return run;
}

int Client::heartbeat_version() const { return connection_->heartbeat_version(); }

Result<api::HeartbeatAnswer> Client::heartbeat(const api::Heartbeat& heartbeat,
                                               const Deadline& deadline) {
  const model::NodeId node = TRY(model::parse_node_id(heartbeat.node));
  const Path path = node;
  return answer_of<decltype(api::kHeartbeat)>(
      {.route = api::kHeartbeat,
       .path = path.words,
       .query = to_query(api::HeartbeatQuery{connection_->generation()}),
       .body = {},
       .make_body =
           [&] {
             return dump_json(api::heartbeat_json(heartbeat, connection_->heartbeat_version()));
           },
       .deadline = deadline});
}

}  // namespace lockstep::client
