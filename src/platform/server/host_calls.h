// HostCalls: the calls of host services, and how hosts join and leave. A service waits here for
// orders; docs/design/host-service.md has the protocol.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/result.h"
#include "net/loop.h"
#include "platform/api/host_service_messages.h"
#include "platform/engine/hosts/hosts_engine.h"
#include "platform/server/checkpoints/checkpoint_relay.h"
#include "platform/server/checkpoints/host_file_orders.h"
#include "platform/server/principal.h"
#include "platform/server/route_call.h"
#include "platform/server/server.h"

namespace lockstep::server {

class HostCalls {
 public:
  using OrdersReply = Reply<api::ServiceOrders>;

  // Both outlive this.
  HostCalls(net::Loop& loop, const ServerSetup& setup);

  Result<api::JoinTokenAnswer> make_token(const std::string& host,
                                          const api::JoinTokenRequest& request) const;
  Result<api::JoinAnswer> join(const host::JoinToken& token, const api::JoinRequest& request);
  Result<void> remove(const model::RemoveHost& removal, const model::AuditRecord& record);
  Result<void> declare_dead(const model::HostDead& death, const model::AuditRecord& record);
  // Answers now if there are orders that no answer had, else when there are, at most after `wait`.
  Result<void> report(const std::string& host, const api::ServiceReport& report, Duration wait,
                      const OrdersReply& reply);
  Result<api::CollectAnswer> collect(const std::string& host, const api::CollectRequest& request);
  Result<api::RunFolders> kept_files(const api::RunFolders& question);
  // How many of the answers were awaited.
  Result<api::HostFilesTaken> take_files(const std::string& host,
                                         const api::HostFileAnswers& answers);
  // An agent of the attempt asks; the answer comes within some seconds.
  Result<void> choose_checkpoint(const model::Run& run, const model::AttemptId& attempt,
                                 const Reply<api::NodeCheckpoint>& reply);
  Result<void> send_checkpoint_part(const model::AttemptId& attempt,
                                    const api::CheckpointPartRequest& part,
                                    const Reply<api::CheckpointPart>& reply);
  // Answers all waiting calls; later ones do not wait.
  void finish();

 private:
  struct WaitingCall {
    OrdersReply reply;
    net::Timer timeout;
  };

  Result<engine::HostsEngine*> engine() const;
  api::ServiceOrders orders(const std::string& host);
  Result<CheckpointSources> checkpoint_sources(const model::Run& run) const;
  Result<api::KeptFiles> kept_files_of(const api::RunFolder& folder);
  void answer(const std::string& host);
  void answer_soon(const std::string& host);
  void answer_announced();

  net::Loop& loop_;
  const ServerSetup& setup_;
  HostFileOrders file_orders_;
  CheckpointRelay checkpoints_;
  bool ended_ = false;
  std::map<std::string, WaitingCall> waiting_;  // the newest of each host
  std::set<std::string> announced_;
  net::Timer announced_timer_;
};

}  // namespace lockstep::server
