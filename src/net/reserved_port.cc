#include "net/reserved_port.h"

#include <cerrno>

#include <netinet/in.h>
#include <sys/socket.h>

namespace lockstep::net {
namespace {

Result<Fd> bind_any(int family) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return os_error("reserving a port: socket", errno);
  int on = 1;
  int off = 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  sockaddr_storage any{};  // all zero: any address, any port
  any.ss_family = static_cast<sa_family_t>(family);
  socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&any), size) != 0)
    return os_error("reserving a port: bind", errno);
  return socket;
}

// The port has the same offset in both families' addresses.
Result<std::uint16_t> port_of(const Fd& socket) {
  sockaddr_in6 address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return os_error("reserving a port: getsockname", errno);
  return ntohs(address.sin6_port);
}

}  // namespace

Result<ReservedPort> ReservedPort::open() {
  auto socket = bind_any(AF_INET6);
  if (!socket) socket = bind_any(AF_INET);
  if (!socket) return std::move(socket).error();
  const auto number = TRY(port_of(*socket));
  return ReservedPort(std::move(*socket), number);
}

}  // namespace lockstep::net
