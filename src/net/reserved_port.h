// Reserves a port of this host: other processes do not get it while it is held, but a rank may
// listen on it.
//
// MASTER_PORT must be known before rank 0 starts, and rank 0 itself listens on it. A socket that is
// bound and does not listen keeps the kernel from giving the port to others (bind to port 0,
// outgoing connections), and since it has SO_REUSEADDR, a server with SO_REUSEADDR, as c10d's store
// and every usual server sets, can still bind and listen there.
#pragma once

#include <cstdint>
#include <utility>

#include "base/os/fd.h"
#include "base/result.h"

namespace lockstep::net {

class ReservedPort {
 public:
  // For IPv6 and IPv4 both, where the host has IPv6.
  static Result<ReservedPort> open();
  std::uint16_t number() const { return number_; }

 private:
  ReservedPort(Fd socket, std::uint16_t number) : socket_(std::move(socket)), number_(number) {}
  Fd socket_;
  std::uint16_t number_;
};

}  // namespace lockstep::net
