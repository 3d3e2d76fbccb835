// ClientLink: the link over HTTP. The daemon may come back at another address, so its file is read
// again whenever it was not reached, or answered as if it were somebody else.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "platform/agent/daemon_link.h"
#include "platform/client/client.h"

namespace lockstep {

class ClientLink : public DaemonLink {
 public:
  ClientLink(std::filesystem::path daemon_file, AttemptName attempt, std::string token)
      : daemon_file_(std::move(daemon_file)),
        attempt_(std::move(attempt)),
        token_(std::move(token)) {}

  Result<api::HeartbeatAnswer> heartbeat(const api::Heartbeat& heartbeat,
                                         Deadline deadline) override;

 private:
  Result<void> find_daemon();

  const std::filesystem::path daemon_file_;
  const AttemptName attempt_;
  const std::string token_;
  std::optional<Client> client_;
};

}  // namespace lockstep
