#include "platform/client/client.h"

#include <utility>

#include "base/fd.h"
#include "net/http_client.h"
#include "net/url.h"
#include "platform/api/error.h"
#include "platform/api/paths.h"
#include "platform/api/routes.h"
#include "text/convert.h"

namespace lockstep {
namespace {

// Beyond what the answer may wait by itself.
constexpr Duration kPatience = std::chrono::seconds(30);

std::string seconds(Duration duration) {
  return format("{}", std::chrono::duration<double>(duration).count());
}

std::string number_of(const RunId& id) { return format("{}", id.number); }

// Not every Url that was kept is one that a person wrote: a daemon file may be damaged.
Url url_or_nowhere(const std::string& words) {
  return parse_url(words).value_or(Url{.host = "127.0.0.1", .port = 1});
}

}  // namespace

class Client::Connection {
 public:
  Connection(std::string url, std::string token)
      : url_(std::move(url)), token_(std::move(token)), http_(url_or_nowhere(url_)) {}

  const std::string& url() const { return url_; }

  Result<Json> call(const api::Route& route, const std::string& target, std::string body,
                    const Deadline& deadline) {
    HttpCall call{.method = std::string(route.method), .target = target, .body = std::move(body)};
    if (route.caller != api::Caller::anyone) call.headers.add("Authorization", "Bearer " + token_);
    // A heartbeat's items are numbered: twice counts once.
    call.repeatable = route.caller == api::Caller::agent;
    if (!call.body.empty()) call.headers.add("Content-Type", "application/json");
    HttpResponse answer = TRY(http_.call(call, deadline));
    if (answer.status >= 400) return api::error_of(answer.status, answer.body);
    auto json = parse_json(answer.body);
    if (!json) return std::move(json).error().within(format("the answer of {}", url_));
    return json;
  }

  template <class Answer>
  Result<Answer> ask(const api::Route& route, const std::string& target, std::string body = {},
                     Duration wait = {}) {
    const auto deadline = Deadline::after(wait + kPatience);
    return from_json<Answer>(TRY(call(route, target, std::move(body), deadline)));
  }

 private:
  std::string url_;
  std::string token_;
  HttpClient http_;
};

Client::Client(std::string url, std::string token)
    : connection_(std::make_unique<Connection>(std::move(url), std::move(token))) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::open(const Home& home) {
  auto file = read_daemon_file(home.daemon_file());
  if (!file && file.error().code == Code::not_found)
    return Error{Code::unavailable,
                 format("no daemon is running with the home {}", home.folder.string())};
  if (!file) return std::move(file).error();
  std::string token = TRY(read_file(home.token_file()));
  while (token.ends_with('\n')) token.pop_back();
  Client client(file->url, token);
  auto well = client.health();
  if (well) return client;
  if (well.error().code == Code::timeout) return std::move(well).error();
  // Also when somebody else answers there: a daemon that was killed leaves its file behind.
  return Error{Code::unavailable, std::move(well).error().message};
}

const std::string& Client::url() const { return connection_->url(); }

Result<void> Client::health() {
  TRY(connection_->call(api::kHealth, std::string(api::kHealth.path), {},
                        Deadline::after(kPatience)));
  return {};
}

Result<api::Version> Client::version() {
  return connection_->ask<api::Version>(api::kVersion, std::string(api::kVersion.path));
}

Result<Json> Client::map() {
  return connection_->ask<Json>(api::kMap, std::string(api::kMap.path));
}

Result<api::RunView> Client::submit(const api::SubmitRequest& request) {
  return connection_->ask<api::RunView>(api::kSubmit, std::string(api::kSubmit.path),
                                        dump_json(to_json(request)));
}

Result<api::RunList> Client::runs(const RunsQuery& query) {
  api::Query words = {{"limit", format("{}", query.limit)}};
  if (query.project) words.emplace_back("project", *query.project);
  if (query.state) words.emplace_back("state", *query.state);
  return connection_->ask<api::RunList>(api::kRuns, api::target_of(api::kRuns.path, {}, words));
}

Result<api::RunView> Client::run(const RunId& id, std::int64_t after_version, Duration wait) {
  api::Query words = {{"after_version", format("{}", after_version)}, {"wait", seconds(wait)}};
  return connection_->ask<api::RunView>(
      api::kRun, api::target_of(api::kRun.path, {id.project, number_of(id)}, words), {}, wait);
}

Result<api::RunView> Client::stop(const RunId& id, const api::StopRequest& request) {
  return connection_->ask<api::RunView>(
      api::kStop, api::target_of(api::kStop.path, {id.project, number_of(id)}),
      dump_json(to_json(request)));
}

Result<api::LogPage> Client::logs(const RunId& id, const LogsQuery& query) {
  api::Query words = {{"after", format("{}", query.after)},
                      {"limit", format("{}", query.limit)},
                      {"wait", seconds(query.wait)}};
  if (query.rank) words.emplace_back("rank", format("{}", *query.rank));
  if (query.tail) words.emplace_back("tail", format("{}", *query.tail));
  return connection_->ask<api::LogPage>(
      api::kLogs, api::target_of(api::kLogs.path, {id.project, number_of(id)}, words), {},
      query.wait);
}

Result<api::SeriesList> Client::metrics(const RunId& id, const MetricsQuery& query) {
  api::Query words = {{"after_step", format("{}", query.after_step)}};
  if (query.name) words.emplace_back("name", *query.name);
  if (query.rank) words.emplace_back("rank", format("{}", *query.rank));
  return connection_->ask<api::SeriesList>(
      api::kMetrics, api::target_of(api::kMetrics.path, {id.project, number_of(id)}, words));
}

Result<api::HeartbeatAnswer> Client::heartbeat(const api::Heartbeat& heartbeat,
                                               const Deadline& deadline) {
  const NodeId node = TRY(parse_node_id(heartbeat.node));
  const std::string target = api::target_of(
      api::kHeartbeat.path, {node.attempt.run.project, number_of(node.attempt.run),
                             format("{}", node.attempt.epoch), format("{}", node.index)});
  return from_json<api::HeartbeatAnswer>(
      TRY(connection_->call(api::kHeartbeat, target, dump_json(to_json(heartbeat)), deadline)));
}

}  // namespace lockstep
