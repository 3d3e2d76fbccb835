#include "net/http/upgrade.h"

#include <algorithm>
#include <cstring>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "net/detail/upgraded_impl.h"

namespace lockstep::net {

UpgradedConnection::UpgradedConnection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
UpgradedConnection::UpgradedConnection(UpgradedConnection&&) noexcept = default;
UpgradedConnection& UpgradedConnection::operator=(UpgradedConnection&&) noexcept = default;
UpgradedConnection::~UpgradedConnection() = default;

Headers upgrade_headers(std::string_view protocol) {
  return {{"Connection", "Upgrade"}, {"Upgrade", std::string(protocol)}};
}

std::string requested_upgrade(const HttpRequest& request) {
  const bool asks = request.method == "GET" && !request.has_body &&
                    request.headers.count("Upgrade") == 1 &&
                    request.headers.count("Connection") == 1 &&
                    equal_ignoring_case(*request.headers.find("Connection"), "upgrade");
  return asks ? std::string(*request.headers.find("Upgrade")) : "";
}

namespace detail {

void set_keepalive(int socket) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

std::size_t take_early(std::string& early, boost::asio::mutable_buffer buffer) {
  const std::size_t size = std::min(early.size(), buffer.size());
  std::memcpy(buffer.data(), early.data(), size);
  early.erase(0, size);
  return size;
}

}  // namespace detail
}  // namespace lockstep::net
