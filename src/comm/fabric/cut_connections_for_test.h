// For tests: a network that fails while all processes are alive.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace lockstep::comm {

inline bool is_connected_to_other_than(int fd, std::uint16_t kept_port) {
  sockaddr_storage peer{};
  socklen_t bytes = sizeof peer;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) return false;
  if (peer.ss_family == AF_UNIX) return true;
  return peer.ss_family == AF_INET &&
         ntohs(reinterpret_cast<const sockaddr_in*>(&peer)->sin_port) != kept_port;
}

// Cuts all connections of this process except that to the rendezvous at this port.
inline void cut_connections(std::uint16_t kept_port) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    const int fd = std::atoi(entry->d_name);
    if (is_connected_to_other_than(fd, kept_port)) ::shutdown(fd, SHUT_RDWR);
  }
}

}  // namespace lockstep::comm
