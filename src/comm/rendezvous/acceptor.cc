#include "comm/rendezvous/acceptor.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"

namespace lockstep::comm {
namespace {

constexpr auto kProofBound = std::chrono::seconds(1);
// A caller that was not scheduled for this long when others waited tries again.
constexpr auto kTurn = std::chrono::milliseconds(100);
constexpr std::size_t kProofFrameLimit = 1024;

}  // namespace

Result<Acceptor> Acceptor::create(net::Secret secret, std::string purpose,
                                  std::vector<net::Listener> listeners, std::size_t unproven) {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return os_error("making an epoll", errno);
  Fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return os_error("making a timer", errno);
  Acceptor acceptor(std::move(secret), std::move(purpose), std::move(listeners), unproven,
                    std::move(epoll), std::move(timer));
  TRY(acceptor.watch(acceptor.timer_.get(), true, EPOLL_CTL_ADD));
  for (const auto& listener : acceptor.listeners_)
    TRY(acceptor.watch(listener.fd(), true, EPOLL_CTL_ADD));
  return acceptor;
}

Acceptor::Acceptor(net::Secret secret, std::string purpose, std::vector<net::Listener> listeners,
                   std::size_t unproven, Fd epoll, Fd timer)
    : secret_(std::move(secret)),
      purpose_(std::move(purpose)),
      listeners_(std::move(listeners)),
      unproven_limit_(unproven),
      epoll_(std::move(epoll)),
      timer_(std::move(timer)) {}

Result<void> Acceptor::watch(int fd, bool arrivals, int how) const {
  epoll_event event{};
  event.events = arrivals ? static_cast<unsigned>(EPOLLIN) : 0U;
  if (::epoll_ctl(epoll_.get(), how, fd, &event) != 0)
    return os_error("watching for callers", errno);
  return {};
}

// Closing is not enough: a child that was forked meanwhile holds the connection, too.
void Acceptor::unwatch(const Unproven& one) const {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, one.caller.socket.fd(), nullptr);
}

Result<std::optional<Acceptor::Caller>> Acceptor::next() {
  std::optional<Caller> proven;
  do {
    proven = TRY(take_proven());
  } while (!proven && TRY(accept_callers()));
  TRY(prepare_wait());
  return proven;
}

Result<std::optional<Acceptor::Caller>> Acceptor::take_proven() {
  for (auto one = unproven_.begin(); one != unproven_.end();) {
    const auto current = one++;
    const auto proven = advance(*current);
    if (proven && !*proven && !current->end.passed()) continue;
    if (!proven)
      LS_LOG(warning, "refused a caller: {}", proven.error().message);
    else if (!*proven)
      LS_LOG(warning, "refused a caller that proved nothing for a second");
    unwatch(*current);
    std::optional<Caller> caller;
    if (proven && *proven) caller = std::move(current->caller);
    unproven_.erase(current);
    if (caller) return caller;
  }
  return std::optional<Caller>();
}

Result<bool> Acceptor::advance(Unproven& one) {
  auto& socket = one.caller.socket;
  while (const auto frame = TRY(one.reader.read(socket))) {
    if (!std::exchange(one.challenged, true)) {
      TRY(send_frame(socket, TRY(one.handshake.challenge(*frame)), one.end));
      continue;
    }
    const auto checked = one.handshake.check(*frame);
    // A caller is refused whether or not it receives the reason.
    const auto told = send_frame(socket, checked ? kWelcome : checked.error().message, one.end);
    TRY(checked);
    TRY(told);
    return true;
  }
  return false;
}

Result<bool> Acceptor::accept_callers() {
  bool accepted = false;
  for (std::size_t i = 0; i < listeners_.size(); ++i)
    while (make_room()) {
      auto socket = TRY(listeners_[i].try_accept());
      if (!socket) break;
      TRY(watch(socket->fd(), true, EPOLL_CTL_ADD));
      unproven_.push_back({{std::move(*socket), i},
                           {secret_, purpose_},
                           FrameReader(kProofFrameLimit),
                           Deadline::after(kTurn),
                           Deadline::after(kProofBound)});
      accepted = true;
    }
  return accepted;
}

// When it is full, the caller that has been silent longest gives way.
bool Acceptor::make_room() {
  if (unproven_.size() < unproven_limit_) return true;
  if (!unproven_.front().turn.passed()) return false;
  unwatch(unproven_.front());
  unproven_.pop_front();
  return true;
}

// While there is no room, the listeners are readable and are not watched.
Result<void> Acceptor::prepare_wait() {
  const bool full = unproven_.size() >= unproven_limit_;
  for (const auto& listener : listeners_) TRY(watch(listener.fd(), !full, EPOLL_CTL_MOD));
  itimerspec time{};
  if (!unproven_.empty()) {
    const auto& oldest = unproven_.front();
    const auto left = std::max<std::chrono::nanoseconds>(
        (full ? oldest.turn : oldest.end).remaining(), std::chrono::nanoseconds(1));
    time.it_value.tv_sec = left / std::chrono::seconds(1);
    time.it_value.tv_nsec = (left % std::chrono::seconds(1)).count();
  }
  // Also resets a timer that has expired.
  if (::timerfd_settime(timer_.get(), 0, &time, nullptr) != 0)
    return os_error("setting a timer", errno);
  return {};
}

}  // namespace lockstep::comm
