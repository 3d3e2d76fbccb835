// ClientLink: the link over HTTP. The daemon may come back at another address, so its file is read
// again whenever it was not reached, or answered as if it were somebody else.
//
// The daemon's folder may be renamed meanwhile, and another one take its path. So the folder is
// kept open, and the file read there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "platform/agent/daemon_link.h"
#include "platform/client/client.h"
#include "platform/host/kept_folder.h"

namespace lockstep {

class ClientLink : public DaemonLink {
 public:
  ClientLink(const std::filesystem::path& daemon_file, AttemptName attempt, std::string token)
      : folder_(daemon_file.parent_path()),
        daemon_file_(daemon_file.filename()),
        attempt_(std::move(attempt)),
        token_(std::move(token)) {}

  Result<api::HeartbeatAnswer> heartbeat(const api::Heartbeat& heartbeat,
                                         Deadline deadline) override;

 private:
  Result<void> find_daemon();

  const KeptFolder folder_;
  const std::string daemon_file_;  // its name there
  const AttemptName attempt_;
  const std::string token_;
  std::optional<Client> client_;
};

}  // namespace lockstep
