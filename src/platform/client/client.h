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
#include "platform/api/messages.h"
#include "platform/host/home.h"
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

class Client {
 public:
  // For users: reads the daemon's address and the user's token from `home`. Code::unavailable if no
  // daemon answers, Code::timeout if one exists but does not answer, Code::corrupt if the file with
  // its address cannot be read.
  static Result<Client> open(const host::Home& home, WhenLate when_late = {});
  // With a user's token, or that of the attempt. The server at the url must prove that it knows the
  // token before the token is sent. Otherwise each call fails with Code::unavailable.
  Client(std::string url, std::string token,
         std::optional<model::AttemptName> attempt = std::nullopt);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  const std::string& url() const;
  // The last call was sent, at least in part, and not answered: its effect is unknown.
  bool was_sent() const;

  Result<void> health();
  Result<api::Version> version();
  Result<Json> map();
  // Submits the run once: if the connection is lost before the answer, the call is repeated with
  // the same request id, which is generated if the request has none.
  Result<api::RunView> submit(api::SubmitRequest request);
  Result<api::RunList> runs(const api::RunsQuery& query);
  // With `wait`, answers once the run's version is greater than after_version.
  Result<api::RunView> run(const model::RunId& id, std::int64_t after_version = -1,
                           Duration wait = {});
  Result<api::RunView> stop(const model::RunId& id, const api::StopRequest& request);
  Result<api::RunView> resume(const model::RunId& id);
  Result<api::RunView> hold(const model::RunId& id, const api::HoldRequest& request);
  Result<api::RunView> release(const model::RunId& id, const api::ReleaseRequest& request);
  Result<api::RunView> priority(const model::RunId& id, const api::PriorityRequest& request);
  Result<api::QueueView> queue(const api::QueueQuery& query);
  // A dry run: submits nothing.
  Result<api::PlanView> plan(const api::SubmitRequest& request);
  Result<api::HostList> hosts();
  Result<api::HostList> set_host(const api::HostRequest& request);
  Result<api::LimitList> limits();
  Result<api::LimitList> set_limit(const api::LimitRequest& request);
  Result<api::OrphanList> orphans();
  Result<api::OrphanList> stop_orphan(const model::RunId& id, const api::OrphanRequest& request);
  Result<api::RunView> adopt_orphan(const model::RunId& id, const api::OrphanRequest& request);
  Result<api::LogPage> logs(const model::RunId& id, const api::LogsQuery& query);
  Result<api::FlightView> flight(const model::RunId& id, const api::FlightQuery& query);
  Result<api::SeriesList> metrics(const model::RunId& id, const api::MetricsQuery& query);
  // Answers, or fails at the deadline, which must be later than heartbeat.wait_seconds.
  Result<api::HeartbeatAnswer> heartbeat(const api::Heartbeat& heartbeat, const Deadline& deadline);

 private:
  static Result<Client> open_elsewhere(const host::Home& home, const host::DaemonFile& there,
                                       WhenLate when_late);

  class Connection;
  template <class Route>
  Result<typename Route::Answer> change(const Route& route, const std::vector<std::string>& words,
                                        const typename Route::Request& request);
  std::unique_ptr<Connection> connection_;
};

}  // namespace lockstep::client
