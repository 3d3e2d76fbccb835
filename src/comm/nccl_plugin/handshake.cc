#include "comm/nccl_plugin/handshake.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/format.h"
#include "comm/nccl_plugin/log.h"

namespace lockstep::comm::nccl {
namespace {

constexpr std::uint64_t kHandleMagic = 0x4c4f434b4e434301;  // the last byte is a version
constexpr std::uint64_t kGreetingMagic = 0x4c4f434b48454c01;
constexpr auto kGreetingBound = std::chrono::seconds(5);  // a silent caller is a stranger
constexpr std::size_t kCallers = 32;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

Error connection_error(const Handle& handle, int error) {
  auto failure = os_error(format("connecting to {}:{}", handle.host.data(), handle.port), error);
  failure.code = Code::peer_lost;
  return failure;
}

Result<Greeting> greeting_of(Port& port, std::array<std::uint64_t, 2> secret) {
  const Lock lock(port.mutex());
  Greeting greeting;
  greeting.magic = kGreetingMagic;
  greeting.secret = secret;
  const auto& address = port.endpoint().address();
  if (address.size() > greeting.address.size())
    return Error{Code::invalid, format("the address of provider {} has {} bytes, more than {}",
                                       port.provider(), address.size(), greeting.address.size())};
  greeting.address_bytes = static_cast<std::uint32_t>(address.size());
  std::ranges::copy(address, greeting.address.begin());
  port.provider().copy(greeting.provider.data(), greeting.provider.size() - 1);
  return greeting;
}

// The address of the peer's endpoint.
Result<std::string> address_in(const Greeting& greeting, const Port& port) {
  const std::string provider(greeting.provider.data(),
                             ::strnlen(greeting.provider.data(), greeting.provider.size()));
  if (provider != port.provider())
    return Error{Code::invalid,
                 format("the peer uses libfabric's provider '{}' and this process '{}': set "
                        "LOCKSTEP_FABRIC_PROVIDER to the same on all hosts",
                        provider, port.provider())};
  if (greeting.address_bytes > greeting.address.size())
    return Error{Code::corrupt, "the peer sent an address that is too long"};
  return std::string(greeting.address.data(), greeting.address_bytes);
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
};

Result<SocketAddress> socket_address(const Handle& handle) {
  SocketAddress address;
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
  if (::inet_pton(AF_INET, handle.host.data(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(handle.port);
    address.bytes = sizeof v4;
  } else if (::inet_pton(AF_INET6, handle.host.data(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(handle.port);
    address.bytes = sizeof v6;
  } else {
    return Error{Code::corrupt, "the handle has no address of a host"};
  }
  return address;
}

// The bytes read so far, of greeting's; an error when the peer closed.
Result<bool> read_some(int socket, Greeting& greeting, std::size_t& received) {
  auto* const bytes = reinterpret_cast<char*>(&greeting);
  while (received < sizeof greeting) {
    const auto got = ::recv(socket, bytes + received, sizeof greeting - received, MSG_DONTWAIT);
    if (got == 0) return Error{Code::peer_lost, "the peer closed the connection"};
    if (got < 0) {
      if (would_block(errno)) return false;
      return os_error("receiving a greeting", errno);
    }
    received += static_cast<std::size_t>(got);
  }
  return true;
}

Result<bool> send_some(int socket, const Greeting& greeting, std::size_t& sent) {
  const auto* const bytes = reinterpret_cast<const char*>(&greeting);
  while (sent < sizeof greeting) {
    const auto got =
        ::send(socket, bytes + sent, sizeof greeting - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (got < 0) {
      if (would_block(errno) || errno == ENOTCONN) return false;
      return os_error("sending a greeting", errno);
    }
    sent += static_cast<std::size_t>(got);
  }
  return true;
}

std::string name_of_peer(int socket) {
  SocketAddress address;
  address.bytes = sizeof address.storage;
  std::array<char, INET6_ADDRSTRLEN> host{};
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.bytes) != 0)
    return "a peer";
  const void* ip = address.storage.ss_family == AF_INET6
                       ? static_cast<const void*>(
                             &reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr)
                       : static_cast<const void*>(
                             &reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr);
  ::inet_ntop(address.storage.ss_family, ip, host.data(), host.size());
  return host.data();
}

}  // namespace

ListenConnection::ListenConnection(std::shared_ptr<Port> port, net::Listener listener,
                                   Handle handle)
    : port_(std::move(port)), listener_(std::move(listener)), handle_(handle) {}

Result<std::unique_ptr<ListenConnection>> ListenConnection::open(std::shared_ptr<Port> port,
                                                                 const std::string& host,
                                                                 Handle& handle) {
  auto listener = TRY(net::Listener::tcp(host, 0));
  handle = {};
  handle.magic = kHandleMagic;
  if (::getrandom(handle.secret.data(), sizeof handle.secret, 0) != sizeof handle.secret)
    return os_error("making a secret", errno);
  if (host.size() >= handle.host.size())
    return Error{Code::invalid, format("the address '{}' is too long", host)};
  std::ranges::copy(host, handle.host.begin());
  handle.port = listener.port();
  return std::unique_ptr<ListenConnection>(
      new ListenConnection(std::move(port), std::move(listener), handle));
}

Result<void> ListenConnection::take_callers() {
  while (callers_.size() < kCallers) {
    auto socket = TRY(listener_.try_accept());
    if (!socket) return {};
    callers_.push_back({std::move(*socket), {}, 0, Deadline::after(kGreetingBound)});
  }
  return {};
}

Result<bool> ListenConnection::read_greeting(Caller& caller) {
  if (TRY(read_some(caller.socket.fd(), caller.greeting, caller.received))) return true;
  if (caller.deadline.passed()) return Error{Code::timeout, "a caller was silent"};
  return false;
}

Result<std::unique_ptr<ReceiveConnection>> ListenConnection::accept() {
  TRY(take_callers());
  for (auto caller = callers_.begin(); caller != callers_.end();) {
    const auto complete = read_greeting(*caller);
    if (complete && !*complete) {
      ++caller;
      continue;
    }
    auto taken = std::move(*caller);
    caller = callers_.erase(caller);
    const auto& greeting = taken.greeting;
    if (complete && greeting.magic == kGreetingMagic && greeting.secret == handle_.secret)
      return connection_from(std::move(taken));
    log_info("closed the connection of a caller that did not know the secret of the handle");
  }
  return std::unique_ptr<ReceiveConnection>();
}

Result<std::unique_ptr<ReceiveConnection>> ListenConnection::connection_from(Caller caller) {
  auto answer = TRY(greeting_of(*port_, handle_.secret));
  const auto address = address_in(caller.greeting, *port_);
  if (address) {
    const Lock lock(port_->mutex());
    TRY(port_->peer(*address));
    answer.connection = port_->next_connection_id();
  }
  std::size_t sent = 0;
  const auto peer = name_of_peer(caller.socket.fd());
  // It fits into the socket's empty buffer. When the peer has gone, the watch tells.
  (void)send_some(caller.socket.fd(), answer, sent);
  if (!address) return address.error();
  return std::make_unique<ReceiveConnection>(
      port_, std::make_unique<PeerWatch>(std::move(caller.socket).release()), answer.connection,
      peer);
}

PendingConnect::PendingConnect(std::shared_ptr<Port> port, const Handle& handle, Fd socket)
    : port_(std::move(port)), handle_(handle), socket_(std::move(socket)) {}

Result<std::unique_ptr<PendingConnect>> PendingConnect::start(std::shared_ptr<Port> port,
                                                              const Handle& handle) {
  if (handle.magic != kHandleMagic)
    return Error{Code::corrupt,
                 "the handle is not from this plugin, or from another version of it"};
  const auto address = TRY(socket_address(handle));
  auto own = TRY(greeting_of(*port, handle.secret));
  Fd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return os_error("making a socket", errno);
  const int on = 1;
  (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const int limit = static_cast<int>(std::chrono::milliseconds(PeerWatch::kHostSilence).count());
  (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.bytes) !=
          0 &&
      errno != EINPROGRESS)
    return connection_error(handle, errno);
  std::unique_ptr<PendingConnect> pending(
      new PendingConnect(std::move(port), handle, std::move(socket)));
  pending->own_ = own;
  return pending;
}

Result<bool> PendingConnect::send_greeting() {
  int error = 0;
  socklen_t bytes = sizeof error;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error != 0) return connection_error(handle_, error);
  return send_some(socket_.get(), own_, sent_);
}

Result<bool> PendingConnect::read_answer() {
  auto complete = read_some(socket_.get(), answer_, received_);
  if (!complete)
    return std::move(complete).error().with_context(
        format("connecting to {}:{}", handle_.host.data(), handle_.port));
  return complete;
}

Result<std::unique_ptr<SendConnection>> PendingConnect::continue_connect() {
  if (!TRY(send_greeting())) return std::unique_ptr<SendConnection>();
  if (!TRY(read_answer())) return std::unique_ptr<SendConnection>();
  if (answer_.magic != kGreetingMagic || answer_.secret != handle_.secret)
    return Error{Code::corrupt, "the peer answered with another protocol"};
  const auto address = TRY(address_in(answer_, *port_));
  PeerAddress peer = 0;
  {
    const Lock lock(port_->mutex());
    peer = TRY(port_->peer(address));
  }
  return std::make_unique<SendConnection>(port_, std::make_unique<PeerWatch>(std::move(socket_)),
                                          answer_.connection, handle_.host.data(), peer);
}

}  // namespace lockstep::comm::nccl
