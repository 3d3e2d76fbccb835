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

namespace lockstep {
namespace {

constexpr auto kHandshakeBound = std::chrono::seconds(10);
constexpr auto kAdmitAgain = std::chrono::seconds(1);
constexpr auto kLook = std::chrono::milliseconds(1000);
// Until the port to which clients are forwarded listens.
constexpr auto kForwardAgain = std::chrono::milliseconds(50);
// A client whose answers pile up beyond this does not read them and is dropped.
constexpr std::size_t kUnsentLimit = 16 << 20;
// One client's gets that wait at the same time; ours asks one thing at a time.
constexpr std::size_t kWaitingLimit = 64;

// Of one client; a crew leaves two at a time.
constexpr std::size_t kWillLimit = 16;

struct Waiting {
  std::string number, key;
};

// What is to be set when a connection ends.
struct Will {
  std::string key, value;
};

struct Connection {
  enum class Stage { hello, proof, open };

  Connection(Socket accepted, Secret secret)
      : socket(std::move(accepted)),
        handshake(std::move(secret), "rendezvous"),
        handshake_end(Deadline::after(kHandshakeBound)) {}

  Socket socket;
  ServerHandshake handshake;
  Deadline handshake_end;
  Stage stage = Stage::hello;
  std::string received, unsent;
  std::vector<Waiting> waiting;
  std::optional<Waiting> listening;  // to all keys that begin with its key
  std::vector<Will> wills;
  bool refused = false;  // closes when `unsent` is out
  // Once it is forwarded. Has the socket, and a far side as soon as the port listens.
  std::optional<Relay> relay;
};

// It has not closed, whatever is still to be read of it.
bool is_open(const Socket& socket) {
  pollfd one{socket.fd(), POLLRDHUP, 0};
  return ::poll(&one, 1, 0) == 0;
}

}  // namespace

class RendezvousServer::Impl {
 public:
  Impl(Listener listener, Fd stop, Secret secret, RendezvousLimits limits, std::uint16_t forward_to)
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
      admit();
      for (auto it = connections_.begin(); it != connections_.end();)
        it = attend(*it) ? std::next(it) : bury(it);
    }
  }

  std::list<Connection>::iterator bury(std::list<Connection>::iterator one) {
    const auto wills = std::move(one->wills);
    const auto next = connections_.erase(one);
    for (const auto& [key, value] : wills) {
      if (entries_.contains(key)) continue;
      if (auto done = set(key, value); !done)
        LS_LOG(warning, "rendezvous: executing a will: {}", done.error().message);
    }
    return next;
  }

  // Until something happens; once a second in any case, for the handshakes' bounds, and sooner
  // while a client waits for the port to which it is forwarded.
  void wait() {
    std::vector<pollfd> fds{{stop_.get(), POLLIN, 0}};
    const bool room = connections_.size() < limits_.connections && admit_again_.passed();
    fds.push_back({room ? listener_.fd() : -1, POLLIN, 0});
    auto pause = kLook;
    for (const auto& one : connections_) {
      if (!one.relay)
        fds.push_back(
            {one.socket.fd(), static_cast<short>(POLLIN | (one.unsent.empty() ? 0 : POLLOUT)), 0});
      else if (one.relay->far)
        one.relay->watch(fds);
      else
        pause = kForwardAgain;
    }
    ::poll(fds.data(), fds.size(), static_cast<int>(pause.count()));
    stopped_ = fds[0].revents != 0;
  }

  void admit() {
    while (connections_.size() < limits_.connections) {
      auto accepted = listener_.try_accept();
      if (!accepted) return pause_admission(accepted.error());
      if (!*accepted) return;
      (*accepted)->tune_for_lifeline(limits_.silence);
      connections_.emplace_back(std::move(**accepted), secret_);
    }
  }

  // No file descriptor is left, say: the listener stays readable and is left alone for a while.
  void pause_admission(const Error& error) {
    LS_LOG(warning, "rendezvous: {}; trying again", error.message);
    admit_again_ = Deadline::after(kAdmitAgain);
  }

  // Reads, answers, writes; false when the connection is over.
  bool attend(Connection& one) {
    if (one.relay) return forward(*one.relay);
    const bool open = one.stage == Connection::Stage::open;
    if (!open && one.handshake_end.passed()) return false;
    if (!read(one)) return false;
    while (!one.refused && !one.relay) {
      auto frame = take_frame(one.received, frame_limit());
      if (!frame) return false;
      if (!*frame) break;
      if (auto handled = handle(one, **frame); !handled) return false;
    }
    if (one.relay) return forward(*one.relay);
    return write(one) && !(one.refused && one.unsent.empty());
  }

  // Nothing is read before the port listens, but the answer to the request is sent.
  bool forward(Relay& relay) const {
    if (!relay.far) {
      auto far = Socket::connect_tcp("127.0.0.1", forward_to_, Deadline::after(kForwardAgain));
      if (!far) return relay.send_near() && is_open(relay.near);
      relay.far = std::move(*far);
      relay.far.tune_for_lifeline(kSilenceBound);
    }
    return relay.carry();
  }

  // A request is an entry and its few small fields.
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
          one.refused = true;
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
      reply(one, number, keep_will(one, {key, value}));
    } else if (verb == "N") {
      listen(one, {number, key});
    } else if (const auto entry = entries_.find(key); entry != entries_.end()) {
      reply(one, number, "ok", entry->second);
    } else {
      one.waiting.push_back({number, key});
      if (one.waiting.size() > kWaitingLimit) one.waiting.erase(one.waiting.begin());
    }
    if (one.unsent.size() > kUnsentLimit)
      return Error{Code::exhausted, "the client does not read its answers"};
    return {};
  }

  Result<void> set(const std::string& key, const std::string& value) {
    TRY(store(key, value));
    release_waiting(key, value);
    tell_news(key);
    return {};
  }

  // What follows the answer comes from the port, and what follows the request goes there.
  void begin_forwarding(Connection& one, const std::string& number) {
    if (forward_to_ == 0)
      return reply(one, number, Error{Code::invalid, "this meeting place forwards nothing"});
    reply(one, number, Result<void>());
    one.relay = Relay{.near = std::move(one.socket),
                      .far = {},
                      .to_near = std::move(one.unsent),
                      .to_far = std::move(one.received)};
  }

  // Each key that is there, or comes, is an answer of its own.
  void listen(Connection& one, Waiting news) {
    for (auto entry = entries_.lower_bound(news.key);
         entry != entries_.end() && entry->first.starts_with(news.key); ++entry)
      reply(one, news.number, "ok", entry->first);
    one.listening = std::move(news);
  }

  void tell_news(const std::string& key) {
    for (auto& one : connections_)
      if (one.listening && key.starts_with(one.listening->key))
        reply(one, one.listening->number, "ok", key);
  }

  Result<void> keep_will(Connection& one, Will will) {
    std::erase_if(one.wills, [&](const Will& other) {
      return other.key == will.key || entries_.contains(other.key);
    });
    if (one.wills.size() >= kWillLimit)
      return Error{Code::exhausted,
                   format("a client may leave {} keys behind, not more", kWillLimit)};
    one.wills.push_back(std::move(will));
    return {};
  }

  Result<void> store(const std::string& key, const std::string& value) {
    if (key.size() + value.size() > static_cast<std::size_t>(limits_.entry.count()))
      return Error{Code::exhausted, format("'{}' and its value have {} bytes, the limit is {}", key,
                                           key.size() + value.size(), text(limits_.entry))};
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

  void release_waiting(const std::string& key, const std::string& value) {
    for (auto& one : connections_)
      std::erase_if(one.waiting, [&](const Waiting& waiting) {
        if (waiting.key != key) return false;
        reply(one, waiting.number, "ok", value);
        return true;
      });
  }

  static void reply(Connection& one, const std::string& number, const Result<void>& outcome) {
    reply(one, number, outcome ? "ok" : text(outcome.error().code),
          outcome ? "" : std::string_view(outcome.error().message));
  }

  static void reply(Connection& one, const std::string& number, std::string_view status,
                    std::string_view value) {
    one.unsent += framed(join_fields({number, std::string(status), std::string(value)}));
  }

  Listener listener_;
  Fd stop_;
  const Secret secret_;
  const RendezvousLimits limits_;
  const std::uint16_t forward_to_;
  // The thread's own.
  bool stopped_ = false;
  Deadline admit_again_ = Deadline::after(Duration(0));
  std::list<Connection> connections_;
  std::map<std::string, std::string> entries_;
  std::thread thread_;  // last: it uses all of the above
};

RendezvousServer::RendezvousServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RendezvousServer::~RendezvousServer() = default;
std::uint16_t RendezvousServer::port() const { return impl_->port(); }

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::start(const std::string& host,
                                                                  std::uint16_t port, Secret secret,
                                                                  RendezvousLimits limits,
                                                                  std::uint16_t forward_to) {
  auto listener = Listener::tcp(host, port);
  if (!listener) return std::move(listener).error().within("opening the rendezvous");
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return os_error("making an eventfd", errno);
  auto impl = std::make_unique<Impl>(std::move(*listener), std::move(stop), std::move(secret),
                                     limits, forward_to);
  return std::unique_ptr<RendezvousServer>(new RendezvousServer(std::move(impl)));
}

}  // namespace lockstep
