#include "platform/agent/external/external_link.h"

#include "base/format.h"
#include "base/log.h"
#include "platform/api/routes.h"

namespace lockstep::agent {

Result<api::HeartbeatAnswer> ExternalLink::heartbeat(const api::Heartbeat& heartbeat,
                                                     Deadline deadline) {
  auto answer = call(heartbeat, deadline);
  if (!answer) client_.reset();
  const Lock lock(mutex_);
  status_.error = answer ? std::nullopt : std::optional(answer.error());
  if (node_) status_.run = node_->run;
  return answer;
}

Result<net::UpgradedConnection> ExternalLink::open_stream(const std::string& id) {
  return Error{Code::invalid, format("stream {}: ranks of another launcher have none", id)};
}

AttachStatus ExternalLink::status() const {
  const Lock lock(mutex_);
  return status_;
}

Result<MediaSender::Destination> ExternalLink::media_destination() const {
  const Lock lock(mutex_);
  if (!node_) return Error{Code::unavailable, "the daemon does not know this node yet"};
  return client_of(*node_);
}

Result<MediaSender::Destination> ExternalLink::client_of(const api::ExternalNode& node) const {
  const model::NodeId id = TRY(model::parse_node_id(node.node));
  return MediaSender::Destination{
      std::make_unique<client::Client>(
          daemon_.url, node.token,
          client::TokenOwner{.attempt = model::AttemptName{node.generation, id.attempt}},
          daemon_.authorities.value_or("")),
      {node.generation, id}};
}

Result<api::HeartbeatAnswer> ExternalLink::call(const api::Heartbeat& heartbeat,
                                                const Deadline& deadline) {
  const api::ExternalNode node = TRY(attach(deadline));
  if (!client_) client_ = TRY(client_of(node)).client;
  api::Heartbeat named = heartbeat;
  named.node = node.node;
  return client_->heartbeat(named, deadline);
}

// The node, from the daemon the first time.
Result<api::ExternalNode> ExternalLink::attach(const Deadline& deadline) {
  {
    const Lock lock(mutex_);
    if (node_) return *node_;
  }
  if (!request_) request_ = make_request_();
  client::Client user(daemon_.url, daemon_.token, {}, daemon_.authorities.value_or(""));
  const auto node = TRY(user.call(api::kExternalNode, {.request = *request_}, deadline));
  LS_LOG(info, "this is node {}", node.node);
  const Lock lock(mutex_);
  node_ = node;
  return node;
}

}  // namespace lockstep::agent
