// Doorbell: an eventfd that wakes a progress thread. The owner waits for it among its other
// descriptors. Other threads, and processes that received the descriptor, ring it.
#pragma once

#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/os/fd.h"
#include "base/result.h"

namespace lockstep::comm {

class Doorbell {
 public:
  static Result<Doorbell> create() {
    Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fd) return os_error("making an eventfd", errno);
    return Doorbell(std::move(fd));
  }
  explicit Doorbell(Fd fd) : fd_(std::move(fd)) {}

  // Never blocks: if the counter is full, the doorbell is already set.
  void ring() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(fd_.get(), &one, sizeof one);
  }
  void clear() const {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(fd_.get(), &count, sizeof count);
  }
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

}  // namespace lockstep::comm
