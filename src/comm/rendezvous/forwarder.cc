#include "comm/rendezvous/forwarder.h"

#include <cerrno>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fd.h"
#include "base/log.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/relay.h"

namespace lockstep {
namespace {

// The other connections of this host wait for as long: they lead to the same server.
constexpr auto kConnectBound = std::chrono::seconds(5);
// The ranks of one host, with a few connections each.
constexpr std::size_t kRelaysMax = 1024;
// No file descriptor is left, say.
constexpr auto kAcceptAgain = std::chrono::seconds(1);

}  // namespace

class Forwarder::Impl {
 public:
  Impl(Listener listener, Fd stop, std::string rendezvous, Secret secret, Duration silence)
      : listener_(std::move(listener)),
        stop_(std::move(stop)),
        rendezvous_(std::move(rendezvous)),
        secret_(std::move(secret)),
        silence_(silence),
        thread_([this] { serve(); }) {}

  ~Impl() {
    const std::uint64_t one = 1;
    LS_CHECK(::write(stop_.get(), &one, sizeof one) == sizeof one);
    thread_.join();
  }

  std::uint16_t port() const { return listener_.port(); }

 private:
  void serve() {
    while (wait()) {
      accept();
      std::erase_if(relays_, [](Relay& relay) { return !relay.carry(); });
    }
  }

  // False at the end.
  bool wait() {
    std::vector<pollfd> fds{{stop_.get(), POLLIN, 0}};
    const bool room = relays_.size() < kRelaysMax && accept_again_.passed();
    fds.push_back({room ? listener_.fd() : -1, POLLIN, 0});
    for (const Relay& relay : relays_) relay.watch(fds);
    ::poll(fds.data(), fds.size(), 1000);
    return fds[0].revents == 0;
  }

  void accept() {
    while (relays_.size() < kRelaysMax && accept_again_.passed()) {
      auto near = listener_.try_accept();
      if (near && !*near) return;
      if (auto begun = near ? connect(std::move(**near)) : Result<void>(near.error()); !begun) {
        LS_LOG(warning, "forwarding to torch's store: {}", begun.error().message);
        accept_again_ = Deadline::after(kAcceptAgain);
      }
    }
  }

  Result<void> connect(Socket near) {
    auto relay = TRY(RendezvousClient::connect_forwarded(rendezvous_, secret_,
                                                         Deadline::after(kConnectBound), silence_));
    near.tune_for_lifeline(kSilenceBound);
    relay.near = std::move(near);
    relays_.push_back(std::move(relay));
    return {};
  }

  Listener listener_;
  Fd stop_;
  const std::string rendezvous_;
  const Secret secret_;
  const Duration silence_;
  // The thread's own.
  Deadline accept_again_ = Deadline::after(Duration(0));
  std::list<Relay> relays_;
  std::thread thread_;  // last: it uses all of the above
};

Forwarder::Forwarder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Forwarder::~Forwarder() = default;
std::uint16_t Forwarder::port() const { return impl_->port(); }

Result<std::unique_ptr<Forwarder>> Forwarder::start(std::string rendezvous, Secret secret,
                                                    Duration silence) {
  auto listener = Listener::tcp("127.0.0.1", 0);
  if (!listener) return std::move(listener).error().within("opening the way to torch's store");
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return os_error("making an eventfd", errno);
  auto impl = std::make_unique<Impl>(std::move(*listener), std::move(stop), std::move(rendezvous),
                                     std::move(secret), silence);
  return std::unique_ptr<Forwarder>(new Forwarder(std::move(impl)));
}

}  // namespace lockstep
