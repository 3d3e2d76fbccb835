// StreamBroker: byte streams between clients and nodes. It orders an agent to call, joins the call
// of the client with that of the agent, and closes streams whose reason has gone. On the loop's
// thread; docs/design/streams.md.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/loop.h"
#include "net/stream/splice.h"
#include "platform/api/routes.h"
#include "platform/server/agent_polls.h"
#include "platform/server/people/accounts.h"
#include "platform/server/route_call.h"
#include "platform/server/server.h"

namespace lockstep::server {

class StreamBroker {
 public:
  // All outlive this.
  StreamBroker(net::Loop& loop, const ServerSetup& setup, Accounts& accounts, AgentPolls& agents,
               const StreamLimits& limits);

  // The client's call, which waits for the agent's.
  Result<void> open(const RouteCall<api::kStream>& call, const Reply<api::None>& reply);
  // The agent's.
  Result<void> connect(const RouteCall<api::kNodeStream>& call, const Reply<api::None>& reply);

  // The streams for which the node's agent, which is calling, has not called yet.
  std::vector<api::StreamOrder> orders_for(const model::NodeId& node) const;
  // True if one of them was in no answer yet.
  bool has_news(const model::NodeId& node) const;
  void mark_sent(const model::NodeId& node);

  // A row of the run has changed.
  void handle_change(const model::RunId& run);
  // Closes all; later calls are refused.
  void finish();

 private:
  struct Stream {
    model::NodeId node;
    identity::Bearer bearer;
    api::StreamOrder order;
    Reply<api::None> client;
    bool is_sent = false;    // its order was in an answer
    bool is_called = false;  // the agent has called
    std::optional<net::UpgradedConnection> client_end{}, agent_end{};
    std::optional<net::Splice> splice{};
    net::Timer timeout{};
  };
  using End = std::optional<net::UpgradedConnection> Stream::*;

  Result<const model::Run*> find_run(const model::RunId& id) const;
  Result<model::NodeId> running_node(const std::vector<std::string>& path_parameters) const;
  Result<void> check_limits(const model::RunId& run) const;
  Result<void> record(const RouteCall<api::kStream>& call, const model::NodeId& node);
  // Called with the connection of that end, once it no longer carries HTTP.
  net::Responder::UseConnection take_end(const std::string& id, End end);
  void expire(const std::string& id);
  // A client that still waits gets the reason.
  void end(const std::string& id, const Error& reason);
  void erase(const std::string& id);
  void check_rights();
  bool is_permitted(const Stream& stream) const;

  net::Loop& loop_;
  const ServerSetup& setup_;
  Accounts& accounts_;
  AgentPolls& agents_;
  const StreamLimits limits_;
  bool ended_ = false;
  std::map<std::string, Stream> streams_;  // by id
  std::map<model::RunId, int> of_run_;     // how many of them
  net::Timer check_timer_;
};

}  // namespace lockstep::server
