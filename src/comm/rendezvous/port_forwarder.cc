#include "comm/rendezvous/port_forwarder.h"

#include <cerrno>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/os/fd.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/relay.h"

namespace lockstep::comm {
namespace {

// The other connections of this host wait for this time: they lead to the same server.
constexpr auto kConnectBound = std::chrono::seconds(5);
// The ranks of one host, with a few connections each.
constexpr std::size_t kRelaysMax = 1024;
// For example, no file descriptor is free.
constexpr auto kAcceptAgain = std::chrono::seconds(1);

}  // namespace

class PortForwarder::Impl {
 public:
  Impl(net::Listener listener, Fd stop, std::string rendezvous, net::Secret secret,
       Duration connection_timeout)
      : listener_(std::move(listener)),
        stop_(std::move(stop)),
        rendezvous_(std::move(rendezvous)),
        secret_(std::move(secret)),
        connection_timeout_(connection_timeout),
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
      std::erase_if(relays_, [](Relay& relay) { return !relay.forward(); });
    }
  }

  // False when the forwarder shall stop.
  bool wait() {
    std::vector<pollfd> fds{{stop_.get(), POLLIN, 0}};
    const bool room = relays_.size() < kRelaysMax && accept_after_.passed();
    fds.push_back({room ? listener_.fd() : -1, POLLIN, 0});
    for (const Relay& relay : relays_) relay.add_poll_fds(fds);
    ::poll(fds.data(), fds.size(), 1000);
    return fds[0].revents == 0;
  }

  void accept() {
    while (relays_.size() < kRelaysMax && accept_after_.passed()) {
      auto near = listener_.try_accept();
      if (near && !*near) return;
      if (auto begun = near ? connect(std::move(**near)) : Result<void>(near.error()); !begun) {
        LS_LOG(warning, "forwarding to torch's store: {}", begun.error().message);
        accept_after_ = Deadline::after(kAcceptAgain);
      }
    }
  }

  Result<void> connect(net::Socket near) {
    auto relay = TRY(RendezvousClient::connect_forwarded(
        rendezvous_, secret_, Deadline::after(kConnectBound), connection_timeout_));
    near.set_keepalive(net::kConnectionTimeout);
    relay.near = std::move(near);
    relays_.push_back(std::move(relay));
    return {};
  }

  net::Listener listener_;
  Fd stop_;
  const std::string rendezvous_;
  const net::Secret secret_;
  const Duration connection_timeout_;
  // Used only by the thread.
  Deadline accept_after_ = Deadline::after(Duration(0));
  std::list<Relay> relays_;
  std::thread thread_;  // last: it uses all of the above
};

PortForwarder::PortForwarder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PortForwarder::~PortForwarder() = default;
std::uint16_t PortForwarder::port() const { return impl_->port(); }

Result<std::unique_ptr<PortForwarder>> PortForwarder::start(std::string rendezvous,
                                                            net::Secret secret,
                                                            Duration connection_timeout) {
  auto listener = net::Listener::tcp("127.0.0.1", 0);
  if (!listener)
    return std::move(listener).error().with_context("opening the way to torch's store");
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return os_error("making an eventfd", errno);
  auto impl = std::make_unique<Impl>(std::move(*listener), std::move(stop), std::move(rendezvous),
                                     std::move(secret), connection_timeout);
  return std::unique_ptr<PortForwarder>(new PortForwarder(std::move(impl)));
}

}  // namespace lockstep::comm
