// RankLauncher: all that a node's ranks need to start: ports, sockets, the secret, the rendezvous,
// and the programs with their environments.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/os/spawn.h"
#include "base/result.h"
#include "comm/rendezvous/port_forwarder.h"
#include "comm/rendezvous/server.h"
#include "net/http/url.h"
#include "net/reserved_port.h"
#include "platform/agent/ranks/nccl_network.h"
#include "platform/agent/ranks/socket_folder.h"
#include "platform/agent/shell/shell_session.h"
#include "platform/agent/software/preparation.h"
#include "platform/core/model/command.h"
#include "platform/host/launch_spec.h"
#include "platform/host/node_files.h"
#include "platform/host/open_folder.h"

namespace lockstep::agent {

class RankLauncher {
 public:
  // Opens the ports and sockets of the node, and writes its secret. `token` marks the node's
  // processes. `launch` must outlive the result.
  static Result<std::unique_ptr<RankLauncher>> open(const host::LaunchSpec& launch,
                                                    const model::NodeId& node, std::string token);
  // Removes the secret.
  ~RankLauncher();

  // For the preparation of the software environment.
  PreparationSetting preparation_setting() const;
  // The result of the preparation; call it before program_of().
  void set_software(PreparedSoftware software) { software_ = std::move(software); }

  // Code::not_found: this host lacks the folder in which the ranks are to start.
  Result<void> check_working_folder() const;
  // The daemon's `start`: where the ranks meet. Call it before program_of().
  Result<void> prepare(const model::Command& start);
  ProcessSpec program_of(int local_rank, bool is_restart) const;
  // The same for a shell that a user opens on the node.
  ShellSession shell_session() const;

  // The node's files, for the agent itself.
  host::NodeFiles own_files() const { return {folder_.path()}; }
  std::filesystem::path report_socket(int local_rank) const;
  // Under which other nodes reach this one; numeric.
  const std::string& address() const { return address_; }
  int master_port() const { return port_.number(); }
  int rendezvous_port() const { return rendezvous_ ? rendezvous_->port() : 0; }
  // Without a reason before prepare(), and for ranks without GPUs.
  const NcclNetwork& nccl_network() const { return nccl_network_; }
  // host:port; empty before prepare().
  const std::string& rendezvous() const { return start_.rendezvous; }

 private:
  RankLauncher(const host::LaunchSpec& launch, const model::NodeId& node, std::string token,
               std::string address, net::ReservedPort port, SocketFolder sockets);
  Result<void> open_rendezvous();
  Result<int> open_store();
  void set_nccl_network();
  void set_tracking();
  Result<std::string> daemon_authority(const net::Url& server) const;
  std::string stand_ins() const;  // as in RankLaunchInfo

  const host::LaunchSpec& launch_;
  const model::NodeId node_;
  const host::NodeFiles files_;    // the paths that ranks get
  const host::OpenFolder folder_;  // the same folder, for the agent itself
  const std::string token_;
  const std::string address_;
  net::ReservedPort port_;
  SocketFolder sockets_;
  std::unique_ptr<comm::RendezvousServer> rendezvous_;  // on node 0
  std::unique_ptr<comm::PortForwarder>
      forwarder_;                 // on other nodes, where MASTER_ADDR is not loopback
  std::string socket_interface_;  // as in RankLaunchInfo, once prepared
  NcclNetwork nccl_network_;      // the same
  std::string tracking_url_, tracking_authorities_;  // the same
  int store_port_ = 0;  // port of torch's store on loopback, as in RankLaunchInfo
  std::vector<std::vector<int>> processors_;  // by local rank, once prepared
  model::Command start_;
  std::optional<PreparedSoftware> software_;  // none: that of the host
};

}  // namespace lockstep::agent
