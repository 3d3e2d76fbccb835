// ShellCalls: the handlers of the routes about shells on nodes (docs/design/shell.md).
//
// A client's call waits for the node's agent: an order in the answers to its heartbeats asks it to
// prepare, and its own call then answers all clients that wait for the node. Nothing is kept after
// that, so a node that gets an sshd, or a daemon that was restarted, needs no repair.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/loop.h"
#include "platform/api/shell_routes.h"
#include "platform/server/agent_polls.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/login/loop_tasks.h"
#include "platform/server/route_call.h"
#include "platform/server/shell/ssh_authorities.h"

namespace lockstep::server {

class ShellCalls {
 public:
  // All outlive this.
  ShellCalls(net::Loop& loop, const CallContext& context, AgentPolls& agent_polls);

  // By a user. Answered when the agent has called, in 10 s at most.
  Result<void> open(const RouteCall<api::kShell>& call, const Reply<api::ShellAccess>& reply);
  // By the agent.
  Result<void> prepared(const RouteCall<api::kNodeShell>& call,
                        const Reply<api::NodeShellAnswer>& reply);

  // The order for the node's agent, while clients wait. It is the same in each answer until then.
  std::optional<std::string> order_for(const model::NodeName& node) const;
  // No answer had it yet.
  bool has_new_order(const model::NodeName& node) const;
  // An answer has it.
  void mark_sent(const model::NodeName& node);

 private:
  struct Waiting {
    std::string id;
    model::NodeName node;
    std::string user;
    std::string public_key;
    Reply<api::ShellAccess> reply;
    net::Timer limit;
    bool is_sent = false;
  };

  Result<model::NodeName> running_node(const RouteCall<api::kShell>& call) const;
  void give_up(const std::string& id);
  std::vector<Waiting> take(const model::NodeName& node);
  void answer(const Waiting& waiting, const std::string& unix_user, const Result<SignedKey>& key);

  net::Loop& loop_;
  const CallContext& context_;
  AgentPolls& agent_polls_;
  const SshAuthorities authorities_;
  std::vector<Waiting> waiting_;  // oldest first
  LoopTasks signing_;             // the last member: its thread uses the authorities
};

}  // namespace lockstep::server
