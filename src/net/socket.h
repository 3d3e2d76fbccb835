// Socket: a small blocking stream socket (TCP or Unix) whose every wait has a Deadline, over
// poll(2). For code that communicates with few peers from a dedicated thread; the platform's many
// connections use net/loop.h. A write to a closed peer is an error, never SIGPIPE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/os/fd.h"
#include "base/result.h"

namespace lockstep::net {

class Socket {
 public:
  Socket() = default;
  explicit Socket(Fd fd) : fd_(std::move(fd)) {}  // made non-blocking by the functions below

  static Result<Socket> connect_tcp(const std::string& host, std::uint16_t port, Deadline deadline);
  // A name that begins with '@' is in the abstract name space, others are paths.
  static Result<Socket> connect_unix(const std::string& name, Deadline deadline);

  // Sends all of it, or returns an error: timeout, or peer_lost if the peer has closed.
  Result<void> send_all(std::span<const std::byte> bytes, Deadline deadline);
  Result<void> recv_all(std::span<std::byte> bytes, Deadline deadline);
  // The bytes available now, at most bytes.size(); nothing if none are available; 0 if the peer
  // closed.
  Result<std::optional<std::size_t>> try_recv(std::span<std::byte> bytes);

  // Sends one byte with a descriptor, over a Unix socket. The sender keeps its own descriptor.
  Result<void> send_fd(int fd, Deadline deadline);
  Result<Fd> recv_fd(Deadline deadline);

  // Sends small messages at once (TCP_NODELAY), and detects a lost connection, also an idle one,
  // when the peer's host has been silent for about this long. Does nothing on Unix sockets.
  void set_keepalive(Duration silence);

  int fd() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }
  Fd release() && { return std::move(fd_); }

 private:
  Fd fd_;
};

class Listener {
 public:
  // port 0: a free one. host: an address or a name; empty: all addresses.
  static Result<Listener> tcp(const std::string& host, std::uint16_t port);
  static Result<Listener> unix_socket(const std::string& name);

  // Accepts if a connection is waiting, else returns nothing.
  Result<std::optional<Socket>> try_accept();

  std::uint16_t port() const { return port_; }
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
  std::uint16_t port_ = 0;
};

// The two parts of "host:port" or "[v6]:port".
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
Result<HostPort> parse_host_port(std::string_view text);
std::string text(const HostPort& address);

// Waits until one of POLLIN / POLLOUT in `events` holds; timeout at the deadline.
Result<void> wait_ready(int fd, short events, Deadline deadline, std::string_view what);
// Waits until one of them is readable, and returns its index; nullopt at the deadline.
Result<std::optional<std::size_t>> wait_readable(std::span<const int> fds, Deadline deadline);

}  // namespace lockstep::net
