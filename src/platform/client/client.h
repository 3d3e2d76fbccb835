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

namespace lockstep {

// For SubmitRequest::request_id: one that nobody else has.
std::string new_request_id();

// Told about five times a second while the daemon is late with an answer, from one second on: at
// which url and for how long. Nothing: the wait is over.
struct LateAnswer {
  std::string url;
  Duration waited{};
};
using WhenLate = std::function<void(const std::optional<LateAnswer>& late)>;

class Client {
 public:
  // For users: reads the daemon's address and the user's token from `home`. Code::unavailable when
  // no daemon answers, Code::timeout when one is there and does not, Code::corrupt when the file
  // that says where it is cannot be read.
  static Result<Client> open(const Home& home, WhenLate when_late = {});
  // With the token of users, or of the attempt. Whoever listens at the url must prove that he knows
  // the token before it is sent: else each call fails with Code::unavailable.
  Client(std::string url, std::string token, std::optional<AttemptName> attempt = std::nullopt);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  const std::string& url() const;
  // The last call was sent, at least in part, and not answered: it is not known what came of it.
  bool was_sent() const;

  Result<void> health();
  Result<api::Version> version();
  Result<Json> map();
  // Makes the run once: when the connection is lost before the answer came, the call is repeated
  // under the same request id, which is a new one if the request has none.
  Result<api::RunView> submit(api::SubmitRequest request);
  Result<api::RunList> runs(const api::RunsQuery& query);
  // With `wait`, answers as soon as the run's version is over after_version.
  Result<api::RunView> run(const RunId& id, std::int64_t after_version = -1, Duration wait = {});
  Result<api::RunView> stop(const RunId& id, const api::StopRequest& request);
  Result<api::RunView> resume(const RunId& id);
  Result<api::RunView> hold(const RunId& id, const api::HoldRequest& request);
  Result<api::RunView> release(const RunId& id, const api::ReleaseRequest& request);
  Result<api::RunView> priority(const RunId& id, const api::PriorityRequest& request);
  Result<api::QueueView> queue(const api::QueueQuery& query);
  // Submits nothing.
  Result<api::PlanView> plan(const api::SubmitRequest& request);
  Result<api::HostList> hosts();
  Result<api::HostList> set_host(const api::HostRequest& request);
  Result<api::LimitList> limits();
  Result<api::LimitList> set_limit(const api::LimitRequest& request);
  Result<api::OrphanList> orphans();
  Result<api::OrphanList> stop_orphan(const RunId& id, const api::OrphanRequest& request);
  Result<api::RunView> adopt_orphan(const RunId& id, const api::OrphanRequest& request);
  Result<api::LogPage> logs(const RunId& id, const api::LogsQuery& query);
  Result<api::FlightView> flight(const RunId& id, const api::FlightQuery& query);
  Result<api::SeriesList> metrics(const RunId& id, const api::MetricsQuery& query);
  // Answers, or fails by the deadline, which leaves room for heartbeat.wait_seconds.
  Result<api::HeartbeatAnswer> heartbeat(const api::Heartbeat& heartbeat, const Deadline& deadline);

 private:
  static Result<Client> open_elsewhere(const Home& home, const DaemonFile& there,
                                       WhenLate when_late);

  class Connection;
  template <class Route>
  Result<typename Route::Answer> change(const Route& route, const std::vector<std::string>& words,
                                        const typename Route::Request& request);
  std::unique_ptr<Connection> connection_;
};

}  // namespace lockstep
