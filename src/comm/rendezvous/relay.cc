#include "comm/rendezvous/relay.h"

#include <cerrno>
#include <cstddef>

#include <sys/socket.h>

namespace lockstep::comm {
namespace {

// In one direction; then the loop serves other connections.
constexpr int kChunksAtOnce = 4;

bool send_some(const net::Socket& to, std::string& held) {
  while (!held.empty()) {
    const auto sent = ::send(to.fd(), held.data(), held.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    held.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

// Reads only when all is sent, so a slow receiver slows its sender.
bool forward_one_way(net::Socket& from, const net::Socket& to, std::string& held) {
  for (int i = 0; i < kChunksAtOnce; ++i) {
    if (!send_some(to, held)) return false;
    if (!held.empty()) return true;
    std::byte chunk[64 * 1024];
    const auto got = from.try_recv(chunk);
    if (!got || (*got && **got == 0)) return false;
    if (!*got) return true;
    held.assign(reinterpret_cast<const char*>(chunk), **got);
  }
  return send_some(to, held);
}

// A side is read once all its data is forwarded, and written to while data remains for it.
short wanted(const std::string& to_other, const std::string& to_it) {
  return static_cast<short>((to_other.empty() ? POLLIN : 0) | (to_it.empty() ? 0 : POLLOUT));
}

}  // namespace

void Relay::add_poll_fds(std::vector<pollfd>& fds) const {
  fds.push_back({near.fd(), wanted(to_far, to_near), 0});
  fds.push_back({far.fd(), wanted(to_near, to_far), 0});
}

bool Relay::send_near() { return send_some(near, to_near); }

bool Relay::forward() {
  return forward_one_way(near, far, to_far) && forward_one_way(far, near, to_near);
}

}  // namespace lockstep::comm
