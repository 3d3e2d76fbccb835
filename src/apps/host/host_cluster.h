// HostCluster: the daemon to which `lockstep host add` joins hosts, for several threads at a time.
#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"
#include "platform/api/host_messages.h"
#include "platform/client/client.h"

namespace lockstep::cli {

// The id on the map for a target of ssh: "gpu1" for "ann@gpu1"; `hostname` if the target is an IP
// address. Code::invalid: it is no name for a host.
Result<std::string> host_id(const std::string& target, const std::string& hostname);

class HostCluster {
 public:
  // The chosen daemon. `url` is its address for hosts; if it is empty, the daemon's own. Errors say
  // how to start a daemon for hosts that join.
  static Result<HostCluster> find(const std::string& url);

  const std::string& url() const { return url_; }
  Result<std::string> token(const std::string& host, const std::string& pod) const;
  // Waits until the host's service has called. Its view says why it may take no run all the same.
  Result<api::HostView> await_service(const std::string& host, Duration limit) const;

 private:
  explicit HostCluster(std::string url) : url_(std::move(url)) {}
  std::string url_;
};

// Sets labels of the host in the chosen daemon.
Result<api::HostList> set_labels(const std::string& host, const map::Labels& labels);

// Takes the host off the map of the chosen daemon; false: no daemon runs, or it does not know it.
Result<bool> remove_from_map(const std::string& host);

}  // namespace lockstep::cli
