#include "comm/rendezvous/server.h"

#include <cerrno>
#include <list>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/handshake.h"
#include "comm/rendezvous/relay.h"
#include "net/socket.h"

namespace lockstep::comm {
namespace {

constexpr auto kHandshakeBound = std::chrono::seconds(10);
constexpr auto kAcceptRetryInterval = std::chrono::seconds(1);
constexpr auto kPollInterval = std::chrono::milliseconds(1000);
// The interval of tries until the port to which clients are forwarded listens.
constexpr auto kForwardAgain = std::chrono::milliseconds(50);
// A client with more unsent responses than this does not read them and is dropped.
constexpr std::size_t kUnsentLimit = 16 << 20;
// The waiting gets of one client; Lockstep's client sends one request at a time.
constexpr std::size_t kPendingGetLimit = 64;

// For one client; a member has two at a time.
constexpr std::size_t kTombstoneLimit = 16;

struct PendingGet {
  std::string number, key;
};

// The entry to set when a connection ends.
struct Tombstone {
  std::string key, value;
};

struct Connection {
  enum class Stage { hello, proof, open };

  Connection(net::Socket accepted, net::Secret secret)
      : socket(std::move(accepted)),
        handshake(std::move(secret), "rendezvous"),
        handshake_end(Deadline::after(kHandshakeBound)) {}

  net::Socket socket;
  ServerHandshake handshake;
  Deadline handshake_end;
  Stage stage = Stage::hello;
  std::string received, unsent;
  std::vector<PendingGet> pending_gets;
  std::optional<PendingGet> watch;  // for all keys that begin with its key
  std::vector<Tombstone> tombstones;
  bool closing = false;  // closes when `unsent` is sent
  // Set when it is forwarded. Has the socket, and a far side as soon as the port listens.
  std::optional<Relay> relay;
};

// True if the peer has not closed it; unread data does not matter.
bool is_open(const net::Socket& socket) {
  pollfd one{socket.fd(), POLLRDHUP, 0};
  return ::poll(&one, 1, 0) == 0;
}

}  // namespace

class RendezvousServer::Impl {
 public:
  Impl(net::Listener listener, Fd stop, net::Secret secret, RendezvousLimits limits,
       std::uint16_t forward_to)
      : listener_(std::move(listener)),
        stop_(std::move(stop)),
        secret_(std::move(secret)),
        limits_(limits),
        forward_to_(forward_to),
        thread_([this] { serve(); }) {}

  ~Impl() {
    const std::uint64_t one = 1;
    LS_CHECK(::write(stop_.get(), &one, sizeof one) == sizeof one);
    thread_.join();
  }

  std::uint16_t port() const { return listener_.port(); }

 private:
  void serve() {
    while (!stopped_) {
      wait();
      accept_connections();
      for (auto it = connections_.begin(); it != connections_.end();)
        it = serve_connection(*it) ? std::next(it) : remove_connection(it);
    }
  }

  std::list<Connection>::iterator remove_connection(std::list<Connection>::iterator one) {
    const auto tombstones = std::move(one->tombstones);
    const auto next = connections_.erase(one);
    for (const auto& [key, value] : tombstones) {
      if (entries_.contains(key)) continue;
      if (auto done = set(key, value); !done)
        LS_LOG(warning, "rendezvous: executing a will: {}", done.error().message);
    }
    return next;
  }

  // Waits for an event, at most a second because of the handshakes' bounds, and less while a client
  // waits for the port to which it is forwarded.
  void wait() {
    std::vector<pollfd> fds{{stop_.get(), POLLIN, 0}};
    const bool room = connections_.size() < limits_.connections && accept_after_.passed();
    fds.push_back({room ? listener_.fd() : -1, POLLIN, 0});
    auto pause = kPollInterval;
    for (const auto& one : connections_) {
      if (!one.relay)
        fds.push_back(
            {one.socket.fd(), static_cast<short>(POLLIN | (one.unsent.empty() ? 0 : POLLOUT)), 0});
      else if (one.relay->far)
        one.relay->add_poll_fds(fds);
      else
        pause = kForwardAgain;
    }
    ::poll(fds.data(), fds.size(), static_cast<int>(pause.count()));
    stopped_ = fds[0].revents != 0;
  }

  void accept_connections() {
    while (connections_.size() < limits_.connections) {
      auto accepted = listener_.try_accept();
      if (!accepted) return pause_accepting(accepted.error());
      if (!*accepted) return;
      (*accepted)->set_keepalive(limits_.connection_timeout);
      connections_.emplace_back(std::move(**accepted), secret_);
    }
  }

  // For example, no file descriptor is free: the listener stays readable and is ignored for a
  // while.
  void pause_accepting(const Error& error) {
    LS_LOG(warning, "rendezvous: {}; trying again", error.message);
    accept_after_ = Deadline::after(kAcceptRetryInterval);
  }

  // Reads, answers, writes; false when the connection has ended.
  bool serve_connection(Connection& one) {
    if (one.relay) return forward(*one.relay);
    const bool open = one.stage == Connection::Stage::open;
    if (!open && one.handshake_end.passed()) return false;
    if (!read(one)) return false;
    while (!one.closing && !one.relay) {
      auto frame = take_frame(one.received, frame_limit());
      if (!frame) return false;
      if (!*frame) break;
      if (auto handled = handle(one, **frame); !handled) return false;
    }
    if (one.relay) return forward(*one.relay);
    return write(one) && !(one.closing && one.unsent.empty());
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

  bool write(Connection& one) {
    while (!one.unsent.empty()) {
      const auto sent = ::send(one.socket.fd(), one.unsent.data(), one.unsent.size(), MSG_NOSIGNAL);
      if (sent < 0) return errno == EAGAIN || errno == EINTR;
      one.unsent.erase(0, static_cast<std::size_t>(sent));
    }
    return true;
  }

  Result<void> handle(Connection& one, const std::string& frame) {
    switch (one.stage) {
      case Connection::Stage::hello:
        one.unsent += framed(TRY(one.handshake.challenge(frame)));
        one.stage = Connection::Stage::proof;
        return {};
      case Connection::Stage::proof:
        if (auto checked = one.handshake.check(frame); !checked) {
          LS_LOG(warning, "rendezvous: refused a client: {}", checked.error().message);
          one.unsent += framed(checked.error().message);
          one.closing = true;
          return {};
        }
        one.unsent += framed(kWelcome);
        one.stage = Connection::Stage::open;
        return {};
      case Connection::Stage::open:
        break;
    }
    const auto fields = TRY(split_fields(frame, 4));
    return answer(one, fields[0], fields[1], fields[2], fields[3]);
  }

  Result<void> answer(Connection& one, const std::string& number, const std::string& verb,
                      const std::string& key, const std::string& value) {
    if (verb == "F") {
      begin_forwarding(one, number);
    } else if (verb == "S") {
      reply(one, number, set(key, value));
    } else if (verb == "W") {
      reply(one, number, add_tombstone(one, {key, value}));
    } else if (verb == "N") {
      start_watch(one, {number, key});
    } else if (const auto entry = entries_.find(key); entry != entries_.end()) {
      reply(one, number, "ok", entry->second);
    } else {
      one.pending_gets.push_back({number, key});
      if (one.pending_gets.size() > kPendingGetLimit)
        one.pending_gets.erase(one.pending_gets.begin());
    }
    if (one.unsent.size() > kUnsentLimit)
      return Error{Code::exhausted, "the client does not read its answers"};
    return {};
  }

  Result<void> set(const std::string& key, const std::string& value) {
    TRY(store(key, value));
    complete_pending_gets(key, value);
    notify_watchers(key);
    return {};
  }

  // After the response, all data comes from the port; after the request, all data goes there.
  void begin_forwarding(Connection& one, const std::string& number) {
    if (forward_to_ == 0)
      return reply(one, number, Error{Code::invalid, "this rendezvous forwards nothing"});
    reply(one, number, Result<void>());
    one.relay = Relay{.near = std::move(one.socket),
                      .far = {},
                      .to_near = std::move(one.unsent),
                      .to_far = std::move(one.received)};
  }

  // Each existing or new key is a separate response.
  void start_watch(Connection& one, PendingGet news) {
    for (auto entry = entries_.lower_bound(news.key);
         entry != entries_.end() && entry->first.starts_with(news.key); ++entry)
      reply(one, news.number, "ok", entry->first);
    one.watch = std::move(news);
  }

  void notify_watchers(const std::string& key) {
    for (auto& one : connections_)
      if (one.watch && key.starts_with(one.watch->key)) reply(one, one.watch->number, "ok", key);
  }

  Result<void> add_tombstone(Connection& one, Tombstone tombstone) {
    std::erase_if(one.tombstones, [&](const Tombstone& other) {
      return other.key == tombstone.key || entries_.contains(other.key);
    });
    if (one.tombstones.size() >= kTombstoneLimit)
      return Error{Code::exhausted,
                   format("a client may leave {} keys behind, not more", kTombstoneLimit)};
    one.tombstones.push_back(std::move(tombstone));
    return {};
  }

  Result<void> store(const std::string& key, const std::string& value) {
    if (key.size() + value.size() > static_cast<std::size_t>(limits_.entry.count()))
      return Error{Code::exhausted,
                   format("'{}' and its value have {} bytes, the limit is {}", key,
                          key.size() + value.size(), lockstep::text(limits_.entry))};
    if (const auto entry = entries_.find(key); entry != entries_.end()) {
      if (entry->second == value) return {};
      return Error{Code::already_exists, format("key '{}' is set already to another value", key)};
    }
    if (entries_.size() >= limits_.entries)
      return Error{Code::exhausted,
                   format("the rendezvous holds {} entries, its limit", entries_.size())};
    entries_.emplace(key, value);
    return {};
  }

  void complete_pending_gets(const std::string& key, const std::string& value) {
    for (auto& one : connections_)
      std::erase_if(one.pending_gets, [&](const PendingGet& waiting) {
        if (waiting.key != key) return false;
        reply(one, waiting.number, "ok", value);
        return true;
      });
  }

  static void reply(Connection& one, const std::string& number, const Result<void>& outcome) {
    reply(one, number, outcome ? "ok" : lockstep::text(outcome.error().code),
          outcome ? "" : std::string_view(outcome.error().message));
  }

  static void reply(Connection& one, const std::string& number, std::string_view status,
                    std::string_view value) {
    one.unsent += framed(join_fields({number, std::string(status), std::string(value)}));
  }

  net::Listener listener_;
  Fd stop_;
  const net::Secret secret_;
  const RendezvousLimits limits_;
  const std::uint16_t forward_to_;
  // Used only by the thread.
  bool stopped_ = false;
  Deadline accept_after_ = Deadline::after(Duration(0));
  std::list<Connection> connections_;
  std::map<std::string, std::string> entries_;
  std::thread thread_;  // last: it uses all of the above
};

RendezvousServer::RendezvousServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RendezvousServer::~RendezvousServer() = default;
std::uint16_t RendezvousServer::port() const { return impl_->port(); }

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::start(const std::string& host,
                                                                  std::uint16_t port,
                                                                  net::Secret secret,
                                                                  RendezvousLimits limits,
                                                                  std::uint16_t forward_to) {
  auto listener = net::Listener::tcp(host, port);
  if (!listener) return std::move(listener).error().with_context("opening the rendezvous");
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return os_error("making an eventfd", errno);
  auto impl = std::make_unique<Impl>(std::move(*listener), std::move(stop), std::move(secret),
                                     limits, forward_to);
  return std::unique_ptr<RendezvousServer>(new RendezvousServer(std::move(impl)));
}

}  // namespace lockstep::comm
