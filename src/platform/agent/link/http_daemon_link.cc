#include "platform/agent/link/http_daemon_link.h"

#include "platform/host/home.h"

namespace lockstep::agent {

Result<api::HeartbeatAnswer> HttpDaemonLink::heartbeat(const api::Heartbeat& heartbeat,
                                                       Deadline deadline) {
  if (!client_) TRY(find_daemon());
  auto answer = client_->heartbeat(heartbeat, deadline);
  if (!answer) client_.reset();
  return answer;
}

// A file that is missing or incomplete is no refusal: the daemon is away.
Result<void> HttpDaemonLink::find_daemon() {
  auto file = host::read_daemon_file(folder_.path() / daemon_file_);
  if (!file) return Error{Code::unavailable, file.error().message};
  client_.emplace(file->url, token_, client::TokenOwner{.attempt = attempt_});
  return {};
}

}  // namespace lockstep::agent
