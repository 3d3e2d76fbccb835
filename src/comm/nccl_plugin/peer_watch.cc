#include "comm/nccl_plugin/peer_watch.h"

#include <cerrno>
#include <cstring>

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>

namespace lockstep::comm::nccl {
namespace {

// The kernel's clock of its last tick, a few milliseconds ago: a tenth of the cost of the exact
// one.
Duration coarse_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::chrono::seconds(now.tv_sec) + Duration(now.tv_nsec / 1000);
}

void set_option(int socket, int level, int name, int value) {
  (void)::setsockopt(socket, level, name, &value, sizeof value);
}

void detect_vanished_host(int socket) {
  const int seconds = static_cast<int>(PeerWatch::kHostSilence.count());
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, SOL_TCP, TCP_KEEPIDLE, seconds / 3);
  set_option(socket, SOL_TCP, TCP_KEEPINTVL, seconds / 5);
  set_option(socket, SOL_TCP, TCP_KEEPCNT, 3);
  set_option(socket, SOL_TCP, TCP_USER_TIMEOUT, seconds * 1000);
}

}  // namespace

PeerWatch::PeerWatch(Fd socket) : socket_(std::move(socket)) {
  forked_.add(socket_.get());
  detect_vanished_host(socket_.get());
}

Result<void> PeerWatch::check() {
  const auto now = coarse_now();
  if (now < next_check_ || messages_at_close_) return {};
  next_check_ = now + kCheckInterval;
  std::uint64_t messages = 0;
  const auto got = ::recv(socket_.get(), &messages, sizeof messages, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return {};
  if (got == sizeof messages) {
    messages_at_close_ = messages;
    closed_at_ = now;
    return {};
  }
  return Error{Code::peer_lost, got < 0 ? "the peer's host was lost: " + errno_text(errno)
                                        : "the peer's process died"};
}

Duration PeerWatch::time_since_close() const { return coarse_now() - closed_at_; }

void PeerWatch::close(std::uint64_t messages) {
  (void)::send(socket_.get(), &messages, sizeof messages, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace lockstep::comm::nccl
