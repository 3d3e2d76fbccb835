#include "comm/rendezvous/server.h"

#include <array>
#include <cerrno>
#include <list>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutex.h"
#include "comm/rendezvous/acceptor.h"
#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/relay.h"
#include "comm/rendezvous/rendezvous_table.h"
#include "net/socket.h"

namespace lockstep::comm {
namespace {

// All ranks of a run may call at once.
constexpr std::size_t kUnprovenLimit = 64;
constexpr auto kAcceptRetryInterval = std::chrono::seconds(1);
constexpr auto kPollInterval = std::chrono::milliseconds(1000);
// The interval of tries until the port to which clients are forwarded listens.
constexpr auto kForwardAgain = std::chrono::milliseconds(50);
// A client with more unsent responses than this does not read them and is dropped.
constexpr std::size_t kUnsentLimit = 16 << 20;

using ClientId = RendezvousTable::ClientId;

struct Connection {
  net::Socket socket;
  std::string received, unsent;
  bool watches_output = false;  // epoll reports when more can be sent
  bool ended = false;
};

// True if the peer has not closed it; unread data does not matter.
bool is_open(const net::Socket& socket) {
  pollfd one{socket.fd(), POLLRDHUP, 0};
  return ::poll(&one, 1, 0) == 0;
}

}  // namespace

class RendezvousServer::Impl {
 public:
  Impl(Acceptor acceptor, Fd stop, Fd epoll, RendezvousLimits limits, std::uint16_t forward_to)
      : acceptor_(std::move(acceptor)),
        stop_(std::move(stop)),
        epoll_(std::move(epoll)),
        limits_(limits),
        forward_to_(forward_to),
        table_(limits.entries, limits.entry,
               [this](ClientId client, const std::string& number, std::string_view status,
                      std::string_view value) { reply(client, number, status, value); }),
        thread_([this] { serve(); }) {}

  ~Impl() {
    const std::uint64_t one = 1;
    LS_CHECK(::write(stop_.get(), &one, sizeof one) == sizeof one);
    thread_.join();
  }

  std::uint16_t port() const { return acceptor_.listener(0).port(); }

  bool wait_until_left(std::size_t clients, Deadline deadline) LS_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    while (left_ < clients)
      if (!has_left_.wait_until(mutex_, deadline)) return left_ >= clients;
    return true;
  }

 private:
  void serve() {
    while (!stopped_) {
      wait();
      accept_clients();
      serve_ready_clients();
      remove_ended_clients();
      std::erase_if(relays_, [this](Relay& relay) { return !forward(relay); });
    }
  }

  // Waits for an event, at most a second, and less while a client waits for the port to which it is
  // forwarded.
  void wait() {
    const bool accepts = has_room() && accept_after_.passed();
    std::vector<pollfd> fds{{stop_.get(), POLLIN, 0},
                            {accepts ? acceptor_.fd() : -1, POLLIN, 0},
                            {epoll_.get(), POLLIN, 0}};
    auto pause = kPollInterval;
    for (const auto& relay : relays_) {
      if (relay.far)
        relay.add_poll_fds(fds);
      else
        pause = kForwardAgain;
    }
    ::poll(fds.data(), fds.size(), static_cast<int>(pause.count()));
    stopped_ = fds[0].revents != 0;
  }

  bool has_room() const { return connections_.size() < limits_.connections; }

  void accept_clients() {
    while (has_room() && accept_after_.passed()) {
      auto caller = acceptor_.next();
      if (!caller) return pause_accepting(caller.error());
      if (!*caller) return;
      (*caller)->socket.set_keepalive(limits_.connection_timeout);
      const auto id = next_client_++;
      auto& one = connections_[id];
      one.socket = std::move((*caller)->socket);
      watch(id, one, EPOLL_CTL_ADD, false);
      if (!has_room())
        LS_LOG(warning, "rendezvous: it has {} clients, its limit; the next ones wait",
               connections_.size());
    }
  }

  // For example, no file descriptor is free: the listener stays readable and is ignored for a
  // while.
  void pause_accepting(const Error& error) {
    LS_LOG(warning,
           "rendezvous: {}; trying again. Each rank needs a descriptor here (ulimit -n raises the "
           "limit)",
           error.message);
    accept_after_ = Deadline::after(kAcceptRetryInterval);
  }

  void watch(ClientId id, Connection& one, int how, bool output) {
    one.watches_output = output;
    epoll_event event{};
    event.events = EPOLLIN | (output ? static_cast<unsigned>(EPOLLOUT) : 0U);
    event.data.u64 = id;
    if (::epoll_ctl(epoll_.get(), how, one.socket.fd(), &event) != 0) end(id);
  }

  void end(ClientId id) {
    auto& one = connections_.at(id);
    if (!std::exchange(one.ended, true)) ended_.push_back(id);
  }

  // Their tombstones may end further connections, of clients that do not read.
  void remove_ended_clients() {
    while (!ended_.empty()) {
      const auto id = ended_.back();
      ended_.pop_back();
      const auto one = connections_.find(id);
      // Closing is not enough: a child that was forked meanwhile holds the connection, too.
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, one->second.socket.fd(), nullptr);
      connections_.erase(one);
      table_.remove(id);
      const Lock lock(mutex_);
      ++left_;
      has_left_.notify_all();
    }
  }

  void serve_ready_clients() {
    std::array<epoll_event, 256> events;
    const int ready = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
    for (int i = 0; i < ready; ++i) {
      const ClientId id = events[static_cast<std::size_t>(i)].data.u64;
      auto& one = connections_.at(id);
      if (!serve_client(id, one)) end(id);
    }
  }

  // Reads, answers, writes; false when the connection has ended.
  bool serve_client(ClientId id, Connection& one) {
    if (one.ended || !read(one)) return false;
    for (;;) {
      auto frame = take_frame(one.received, frame_limit());
      if (!frame) return false;
      if (!*frame) break;
      auto fields = split_fields(**frame, 4);
      if (!fields) return false;
      auto& of = *fields;
      RendezvousTable::Request request{std::move(of[0]), std::move(of[1]), std::move(of[2]),
                                       std::move(of[3])};
      if (request.verb == "F" && forward_to_ != 0) return begin_forwarding(one, request.number);
      if (request.verb == "F")
        reply(id, request.number, lockstep::text(Code::invalid),
              "this rendezvous forwards nothing");
      else
        table_.handle(id, request);
    }
    return send_unsent(id, one);
  }

  // A request is an entry and a few small fields.
  std::size_t frame_limit() const { return static_cast<std::size_t>(limits_.entry.count()) + 256; }

  bool read(Connection& one) {
    std::byte chunk[16 * 1024];
    while (one.received.size() <= frame_limit()) {
      auto got = one.socket.try_recv(chunk);
      if (!got || (*got && **got == 0)) return false;
      if (!*got) return true;
      one.received.append(reinterpret_cast<const char*>(chunk), **got);
    }
    return true;
  }

  void reply(ClientId id, const std::string& number, std::string_view status,
             std::string_view value) {
    auto& one = connections_.at(id);
    if (one.ended) return;
    one.unsent += framed(join_fields({number, std::string(status), std::string(value)}));
    if (one.unsent.size() > kUnsentLimit || (!one.watches_output && !send_unsent(id, one))) end(id);
  }

  bool send_unsent(ClientId id, Connection& one) {
    while (!one.unsent.empty()) {
      const auto sent = ::send(one.socket.fd(), one.unsent.data(), one.unsent.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno != EAGAIN) return false;
      if (sent < 0) break;
      one.unsent.erase(0, static_cast<std::size_t>(sent));
    }
    if (one.watches_output == one.unsent.empty())
      watch(id, one, EPOLL_CTL_MOD, !one.unsent.empty());
    return true;
  }

  // After the response, all data comes from the port; after the request, all data goes there. The
  // client is no client of the table any more.
  bool begin_forwarding(Connection& one, const std::string& number) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, one.socket.fd(), nullptr);
    one.unsent += framed(join_fields({number, "ok", ""}));
    relays_.push_back({.near = std::move(one.socket),
                       .far = {},
                       .to_near = std::move(one.unsent),
                       .to_far = std::move(one.received)});
    return false;
  }

  // Nothing is read before the port listens, but the response to the request is sent.
  bool forward(Relay& relay) const {
    if (!relay.far) {
      auto far = net::Socket::connect_tcp("127.0.0.1", forward_to_, Deadline::after(kForwardAgain));
      if (!far) return relay.send_near() && is_open(relay.near);
      relay.far = std::move(*far);
      relay.far.set_keepalive(net::kConnectionTimeout);
    }
    return relay.forward();
  }

  Acceptor acceptor_;
  Fd stop_;
  Fd epoll_;  // of the connections
  const RendezvousLimits limits_;
  const std::uint16_t forward_to_;
  // Used only by the thread.
  bool stopped_ = false;
  Deadline accept_after_ = Deadline::after(Duration(0));
  RendezvousTable table_;
  ClientId next_client_ = 0;
  std::unordered_map<ClientId, Connection> connections_;
  std::vector<ClientId> ended_;
  std::list<Relay> relays_;

  Mutex mutex_;  // guards what follows
  Condition has_left_;
  std::size_t left_ LS_GUARDED_BY(mutex_) = 0;  // clients

  std::thread thread_;  // last: it uses all of the above
};

RendezvousServer::RendezvousServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RendezvousServer::~RendezvousServer() = default;
std::uint16_t RendezvousServer::port() const { return impl_->port(); }
bool RendezvousServer::wait_until_left(std::size_t clients, Deadline deadline) {
  return impl_->wait_until_left(clients, deadline);
}

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::start(const std::string& host,
                                                                  std::uint16_t port,
                                                                  net::Secret secret,
                                                                  RendezvousLimits limits,
                                                                  std::uint16_t forward_to) {
  auto listener = net::Listener::tcp(host, port);
  if (!listener) return std::move(listener).error().with_context("opening the rendezvous");
  std::vector<net::Listener> listeners;
  listeners.push_back(std::move(*listener));
  auto acceptor =
      TRY(Acceptor::create(std::move(secret), "rendezvous", std::move(listeners), kUnprovenLimit));
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return os_error("making an eventfd", errno);
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return os_error("making an epoll", errno);
  auto impl = std::make_unique<Impl>(std::move(acceptor), std::move(stop), std::move(epoll), limits,
                                     forward_to);
  return std::unique_ptr<RendezvousServer>(new RendezvousServer(std::move(impl)));
}

}  // namespace lockstep::comm
