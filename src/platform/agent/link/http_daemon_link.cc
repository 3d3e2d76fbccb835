#include "platform/agent/link/http_daemon_link.h"

#include <chrono>

#include "platform/host/home.h"

namespace lockstep::agent {
namespace {

constexpr Duration kStreamCallMax = std::chrono::seconds(10);

}  // namespace

Result<api::HeartbeatAnswer> HttpDaemonLink::heartbeat(const api::Heartbeat& heartbeat,
                                                       Deadline deadline) {
  if (!client_) client_.emplace(TRY(find_daemon()));
  auto answer = client_->heartbeat(heartbeat, deadline);
  if (!answer) client_.reset();
  return answer;
}

// A file that is missing or incomplete is no refusal: the daemon is away.
Result<client::Client> HttpDaemonLink::find_daemon() const {
  auto file = host::read_daemon_file(folder_.path() / daemon_file_);
  if (!file) return Error{Code::unavailable, file.error().message};
  return client::Client(file->url, token_, client::TokenOwner{.attempt = node_.attempt()});
}

// By a connection of its own: that of the heartbeats waits for their answers.
Result<net::UpgradedConnection> HttpDaemonLink::open_stream(const std::string& id) {
  client::Client client = TRY(find_daemon());
  return client.open_node_stream(node_, id, Deadline::after(kStreamCallMax));
}

}  // namespace lockstep::agent
