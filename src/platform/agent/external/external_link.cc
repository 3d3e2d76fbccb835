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

Result<api::HeartbeatAnswer> ExternalLink::call(const api::Heartbeat& heartbeat,
                                                const Deadline& deadline) {
  if (!node_) TRY(attach(deadline));
  const model::NodeId id = TRY(model::parse_node_id(node_->node));
  if (!client_)
    client_.emplace(
        daemon_.url, node_->token,
        client::TokenOwner{.attempt = model::AttemptName{node_->generation, id.attempt}},
        daemon_.authorities.value_or(""));
  api::Heartbeat named = heartbeat;
  named.node = node_->node;
  return client_->heartbeat(named, deadline);
}

Result<void> ExternalLink::attach(const Deadline& deadline) {
  if (!request_) request_ = make_request_();
  client::Client user(daemon_.url, daemon_.token, {}, daemon_.authorities.value_or(""));
  node_ = TRY(user.call(api::kExternalNode, {.request = *request_}, deadline));
  LS_LOG(info, "this is node {}", node_->node);
  return {};
}

}  // namespace lockstep::agent
