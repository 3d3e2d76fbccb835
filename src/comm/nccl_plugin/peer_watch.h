// PeerWatch: the TCP connection that a plugin's connection keeps beside libfabric's, to learn that
// the peer closed it or died. A provider may report neither: a receive over ofi_rxm never ends.
//
// The kernel closes it when the peer's process dies. Keep-alives detect a host that vanished. The
// peer tells the number of its messages before it closes, so that the messages that are still on
// their way are waited for.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/os/fd.h"
#include "base/os/fork_guard.h"
#include "base/result.h"

namespace lockstep::comm::nccl {

class PeerWatch {
 public:
  static constexpr auto kCheckInterval = std::chrono::milliseconds(50);
  static constexpr auto kHostSilence = std::chrono::seconds(15);

  explicit PeerWatch(Fd socket);

  // Cheap: looks at the socket at most every kCheckInterval. Code::peer_lost when the peer died.
  Result<void> check();
  // The number of messages that the peer sent or received before it closed the connection.
  std::optional<std::uint64_t> messages_at_close() const { return messages_at_close_; }
  // The time since the peer closed the connection. It did.
  Duration time_since_close() const;
  // Tells the peer.
  void close(std::uint64_t messages);

 private:
  Fd socket_;
  ForkGuard forked_;
  Duration next_check_{};
  Duration closed_at_{};
  std::optional<std::uint64_t> messages_at_close_;
};

}  // namespace lockstep::comm::nccl
