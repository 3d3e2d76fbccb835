// PeerWaits: the peers for which an operation waited longest, once to send data and once to receive
// data.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "comm/group/wait_reason.h"

namespace lockstep::comm {

// For one thread; it allocates nothing.
class PeerWaits {
 public:
  struct Longest {
    int peer = -1;  // none
    std::uint64_t ticks = 0;
  };

  void clear() { count_ = 0; }
  void add(int peer, WaitReason what, std::uint64_t ticks) {
    if (what == WaitReason::receive_data) of(peer).to_take += ticks;
    if (what == WaitReason::send_data) of(peer).to_send += ticks;
  }
  Longest longest_send_wait() const { return longest(&Sums::to_take); }
  Longest longest_receive_wait() const { return longest(&Sums::to_send); }

 private:
  struct Sums {
    int peer = -1;
    std::uint64_t to_take = 0;
    std::uint64_t to_send = 0;
  };
  // For an operation with more peers, the first ones that it waited for.
  static constexpr std::size_t kPeers = 8;

  Sums& of(int peer) {
    const auto end = sums_.begin() + static_cast<std::ptrdiff_t>(count_);
    const auto found =
        std::find_if(sums_.begin(), end, [&](auto& sums) { return sums.peer == peer; });
    if (found != end) return *found;
    if (count_ == kPeers) return rest_;
    sums_[count_] = {.peer = peer};
    return sums_[count_++];
  }
  Longest longest(std::uint64_t Sums::* kind) const {
    Longest longest;
    for (std::size_t i = 0; i < count_; ++i)
      if (sums_[i].*kind > longest.ticks) longest = {sums_[i].peer, sums_[i].*kind};
    return longest;
  }

  std::array<Sums, kPeers> sums_;
  std::size_t count_ = 0;
  Sums rest_;  // never reported
};

}  // namespace lockstep::comm
