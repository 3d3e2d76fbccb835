#include "base/os/fd.h"

#include <cerrno>

#include <unistd.h>

namespace lockstep {

void Fd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Result<void> write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("writing", errno);
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace lockstep
