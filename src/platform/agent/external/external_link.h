// ExternalLink: the link of the agent of an external job. Its first call attaches the agent to the
// daemon with the user's token, and gets the name of its node and a token of its own.
//
// Until then a failure is one of a heartbeat: HeartbeatSender repeats it, and items wait.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "platform/agent/link/daemon_link.h"
#include "platform/agent/link/media_sender.h"
#include "platform/api/external_messages.h"
#include "platform/client/client.h"
#include "platform/client/profile.h"

namespace lockstep::agent {

// The state of the link, for the ranks.
struct AttachStatus {
  std::string run{};             // demo/42; empty: not attached yet
  std::optional<Error> error{};  // of the last call, if it failed
};

class ExternalLink : public DaemonLink {
 public:
  // make_request may take a while: it is called once, by the thread that sends.
  ExternalLink(client::Profile daemon, std::function<api::ExternalNodeRequest()> make_request)
      : daemon_(std::move(daemon)), make_request_(std::move(make_request)) {}

  Result<api::HeartbeatAnswer> heartbeat(const api::Heartbeat& heartbeat,
                                         Deadline deadline) override;
  // The daemon orders none of these agents.
  Result<net::UpgradedConnection> open_stream(const std::string& id) override;
  // By any thread.
  AttachStatus status() const;
  // Code::unavailable until it is attached.
  Result<MediaSender::Destination> media_destination() const;

 private:
  Result<api::ExternalNode> attach(const Deadline& deadline);
  Result<MediaSender::Destination> client_of(const api::ExternalNode& node) const;
  Result<api::HeartbeatAnswer> call(const api::Heartbeat& heartbeat, const Deadline& deadline);

  const client::Profile daemon_;
  const std::function<api::ExternalNodeRequest()> make_request_;
  // Used by the sending thread:
  std::optional<api::ExternalNodeRequest> request_;
  std::unique_ptr<client::Client> client_;

  mutable Mutex mutex_;  // guards what follows
  AttachStatus status_ LS_GUARDED_BY(mutex_);
  std::optional<api::ExternalNode> node_ LS_GUARDED_BY(mutex_);  // once it is attached
};

}  // namespace lockstep::agent
