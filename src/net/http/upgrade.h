// UpgradedConnection: a connection that no longer carries HTTP, after the answer 101: bytes in both
// directions, over TCP or over TLS. net/stream has what to do with it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "net/http/http.h"

namespace lockstep::net {

class UpgradedConnection {
 public:
  struct Impl;
  explicit UpgradedConnection(std::unique_ptr<Impl> impl);
  UpgradedConnection(UpgradedConnection&&) noexcept;
  UpgradedConnection& operator=(UpgradedConnection&&) noexcept;
  ~UpgradedConnection();  // closes it

  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// The headers of a request that asks for this protocol.
Headers upgrade_headers(std::string_view protocol);
// The protocol that a GET without a body asks for; empty: none.
std::string requested_upgrade(const HttpRequest& request);

}  // namespace lockstep::net
