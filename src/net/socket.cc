#include "net/socket.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/format.h"

namespace lockstep::net {
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  int family = AF_UNSPEC;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<Address> resolve(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const auto service = std::to_string(port);
  const int status =
      getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &found);
  if (status != 0)
    return Error{Code::unavailable, format("resolving host '{}': {}", host, gai_strerror(status))};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  address.family = found->ai_family;
  return address;
}

Result<Address> unix_address(const std::string& name) {
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof un.sun_path)
    return Error{Code::invalid, format("the socket name '{}' has not 1 to {} characters", name,
                                       sizeof un.sun_path - 1)};
  std::memcpy(un.sun_path, name.data(), name.size());
  if (name.front() == '@') un.sun_path[0] = '\0';
  Address address;
  std::memcpy(&address.storage, &un, sizeof un);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  address.family = AF_UNIX;
  return address;
}

Result<Fd> new_socket(int family) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return os_error("making a socket", errno);
  return fd;
}

Result<Socket> connect_to(const Address& address, const std::string& name, Deadline deadline) {
  auto fd = TRY(new_socket(address.family));
  int error = ::connect(fd.get(), address.get(), address.size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    TRY(wait_ready(fd.get(), POLLOUT, deadline, "connecting to " + name));
    socklen_t size = sizeof error;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  }
  if (error != 0) {
    auto failure = os_error("connecting to " + name, error);
    failure.code = Code::unavailable;
    return failure;
  }
  return Socket(std::move(fd));
}

struct BoundPort {
  Fd fd;
  std::uint16_t port = 0;
};

// A bound socket, with its port.
Result<BoundPort> bind_tcp(const std::string& host, std::uint16_t port) {
  auto address = TRY(resolve(host, port, AI_PASSIVE));
  auto fd = TRY(new_socket(address.family));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), address.get(), address.size) != 0)
    return os_error(format("binding {}", text(HostPort{host, port})), errno);
  address.size = sizeof address.storage;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0)
    return os_error("asking for the bound port", errno);
  const auto bound = address.family == AF_INET6
                         ? reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port
                         : reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port;
  return BoundPort{std::move(fd), ntohs(bound)};
}

Error closed_by_peer() { return {Code::peer_lost, "the peer closed the connection"}; }

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining()).count();
  return static_cast<int>(std::min<long>(left, 1 << 30));
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

// One byte, and room for a descriptor beside it.
struct FdMessage {
  FdMessage() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  FdMessage(const FdMessage&) = delete;  // it points to itself
  FdMessage& operator=(const FdMessage&) = delete;

  char mark = 'F';
  iovec part{&mark, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
};

}  // namespace

Result<void> wait_ready(int fd, short events, Deadline deadline, std::string_view what) {
  for (;;) {
    pollfd poll_fd{fd, events, 0};
    const int ready = ::poll(&poll_fd, 1, milliseconds_until(deadline));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return os_error(what, errno);
    if (deadline.passed()) return Error{Code::timeout, format("{}: no answer in time", what)};
  }
}

Result<std::optional<std::size_t>> wait_readable(std::span<const int> fds, Deadline deadline) {
  std::vector<pollfd> waited;
  for (const int fd : fds) waited.push_back({fd, POLLIN, 0});
  for (;;) {
    const int ready = ::poll(waited.data(), waited.size(), milliseconds_until(deadline));
    if (ready < 0 && errno != EINTR) return os_error("waiting", errno);
    for (std::size_t i = 0; ready > 0 && i < waited.size(); ++i)
      if (waited[i].revents != 0) return std::optional(i);
    if (deadline.passed()) return std::optional<std::size_t>();
  }
}

Result<Socket> Socket::connect_tcp(const std::string& host, std::uint16_t port, Deadline deadline) {
  const auto address = TRY(resolve(host, port, 0));
  return connect_to(address, text(HostPort{host, port}), deadline);
}

Result<Socket> Socket::connect_unix(const std::string& name, Deadline deadline) {
  const auto address = TRY(unix_address(name));
  return connect_to(address, name, deadline);
}

Result<void> Socket::send_all(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (would_block(errno)) {
      TRY(wait_ready(fd(), POLLOUT, deadline, "sending"));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return closed_by_peer();
    } else if (errno != EINTR) {
      return os_error("sending", errno);
    }
  }
  return {};
}

Result<void> Socket::recv_all(std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const auto some = TRY(try_recv(bytes));
    if (!some) {
      TRY(wait_ready(fd(), POLLIN, deadline, "receiving"));
      continue;
    }
    if (*some == 0) return closed_by_peer();
    bytes = bytes.subspan(*some);
  }
  return {};
}

Result<std::optional<std::size_t>> Socket::try_recv(std::span<std::byte> bytes) {
  for (;;) {
    const auto got = ::recv(fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got >= 0) return std::optional(static_cast<std::size_t>(got));
    if (would_block(errno)) return std::optional<std::size_t>();
    if (errno == ECONNRESET || errno == ETIMEDOUT) return std::optional<std::size_t>(0);
    if (errno != EINTR) return os_error("receiving", errno);
  }
}

Result<void> Socket::send_fd(int sent_fd, Deadline deadline) {
  FdMessage message;
  auto* head = CMSG_FIRSTHDR(&message.header);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &sent_fd, sizeof(int));
  for (;;) {
    if (::sendmsg(fd(), &message.header, MSG_NOSIGNAL) == 1) return {};
    if (errno == EPIPE || errno == ECONNRESET) return closed_by_peer();
    if (!would_block(errno) && errno != EINTR) return os_error("passing a descriptor", errno);
    TRY(wait_ready(fd(), POLLOUT, deadline, "passing a descriptor"));
  }
}

Result<Fd> Socket::recv_fd(Deadline deadline) {
  TRY(wait_ready(fd(), POLLIN, deadline, "waiting for a descriptor"));
  FdMessage message;
  const auto got = ::recvmsg(fd(), &message.header, MSG_CMSG_CLOEXEC);
  if (got < 0) return os_error("receiving a descriptor", errno);
  if (got == 0) return closed_by_peer();
  const auto* head = CMSG_FIRSTHDR(&message.header);
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(int)))
    return Error{Code::corrupt, "a descriptor was expected, and other data came"};
  int received = -1;
  std::memcpy(&received, CMSG_DATA(head), sizeof(int));
  return Fd(received);
}

// The last of three probes is unanswered when the time is over.
void Socket::set_keepalive(Duration silence) {
  const auto whole = std::chrono::ceil<std::chrono::seconds>(silence).count();
  const int pause = std::max(1, static_cast<int>(whole / 5));
  const int idle = std::max(1, static_cast<int>(whole) - 3 * pause);
  const auto set = [this](int level, int option, int value) {
    setsockopt(fd(), level, option, &value, sizeof value);  // fails on Unix sockets, as documented
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, idle);
  set(IPPROTO_TCP, TCP_KEEPINTVL, pause);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(1000 * whole));
}

Result<Listener> Listener::tcp(const std::string& host, std::uint16_t port) {
  auto bound = TRY(bind_tcp(host, port));
  if (::listen(bound.fd.get(), SOMAXCONN) != 0)
    return os_error(format("listening on {}", text(HostPort{host, bound.port})), errno);
  Listener listener;
  listener.fd_ = std::move(bound.fd);
  listener.port_ = bound.port;
  return listener;
}

Result<Listener> Listener::unix_socket(const std::string& name) {
  const auto address = TRY(unix_address(name));
  Listener listener;
  listener.fd_ = TRY(new_socket(AF_UNIX));
  if (::bind(listener.fd(), address.get(), address.size) != 0 ||
      ::listen(listener.fd(), SOMAXCONN) != 0)
    return os_error(format("listening on {}", name), errno);
  return listener;
}

Result<std::optional<Socket>> Listener::try_accept() {
  Fd accepted(::accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (accepted) return std::optional(Socket(std::move(accepted)));
  // A connection that was closed before accept() is not an error.
  if (would_block(errno) || errno == EINTR || errno == ECONNABORTED) return std::optional<Socket>();
  return os_error("accepting a connection", errno);
}

Result<HostPort> parse_host_port(std::string_view input) {
  const auto bad = [&] { return Error{Code::invalid, format("'{}' is not host:port", input)}; };
  const auto colon = input.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad();
  auto host = input.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const auto digits = input.substr(colon + 1);
  HostPort address{std::string(host), 0};
  const auto parsed = std::from_chars(digits.begin(), digits.end(), address.port);
  if (parsed.ec != std::errc() || parsed.ptr != digits.end() || host.empty()) return bad();
  return address;
}

std::string text(const HostPort& address) {
  const bool bracket = address.host.find(':') != std::string::npos;
  return format("{}{}{}:{}", bracket ? "[" : "", address.host, bracket ? "]" : "", address.port);
}

}  // namespace lockstep::net
