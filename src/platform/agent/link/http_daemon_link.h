// HttpDaemonLink: the link over HTTP. The daemon may return at another address, so its file is read
// again whenever it was not reached, or another program seems to answer.
//
// The daemon's folder may be renamed meanwhile, and another one may take its path. So the folder is
// kept open, and the file is read there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "platform/agent/link/daemon_link.h"
#include "platform/client/client.h"
#include "platform/host/open_folder.h"

namespace lockstep::agent {

class HttpDaemonLink : public DaemonLink {
 public:
  HttpDaemonLink(const std::filesystem::path& daemon_file, model::NodeName node, std::string token)
      : folder_(daemon_file.parent_path()),
        daemon_file_(daemon_file.filename()),
        node_(std::move(node)),
        token_(std::move(token)) {}

  Result<api::HeartbeatAnswer> heartbeat(const api::Heartbeat& heartbeat,
                                         Deadline deadline) override;
  Result<net::UpgradedConnection> open_stream(const std::string& id) override;

 private:
  Result<client::Client> find_daemon() const;

  const host::OpenFolder folder_;
  const std::string daemon_file_;  // its name in the folder
  const model::NodeName node_;
  const std::string token_;
  std::optional<client::Client> client_;
};

}  // namespace lockstep::agent
