// PowerOfTwoRanks: maps n ranks to a power of two, for algorithms in which ranks exchange in pairs.
// With p the largest power of two up to n there are r = n - p extra ranks. The first 2 r indices of
// the ring are r pairs. The second rank of each pair, the extra one, gives its data to the first,
// its proxy, and gets the result back (Rabenseifner 2004, section 3).
#pragma once

#include <bit>
#include <cstddef>
#include <span>

#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/algorithm/ring/ring.h"

namespace lockstep::comm {

class PowerOfTwoRanks {
 public:
  explicit PowerOfTwoRanks(const MessageExchange& exchange)
      : ring_(exchange.ring()),
        ring_index_(static_cast<std::size_t>(ring_neighbours(exchange).ring_index)),
        active_count_(std::bit_floor(ring_.size())),
        extras_(ring_.size() - active_count_) {}

  bool is_extra() const { return ring_index_ < 2 * extras_ && ring_index_ % 2 == 1; }
  bool is_proxy() const { return ring_index_ < 2 * extras_ && ring_index_ % 2 == 0; }
  // The other rank of the pair.
  int partner() const { return ring_[is_extra() ? ring_index_ - 1 : ring_index_ + 1]; }

  // The ranks that are not extra: their count, the index of this one, the rank of one. The index
  // ascends with the ring index.
  std::size_t active_count() const { return active_count_; }
  std::size_t active_index() const {
    return ring_index_ < 2 * extras_ ? ring_index_ / 2 : ring_index_ - extras_;
  }
  int rank_of(std::size_t core) const { return ring_[core < extras_ ? 2 * core : core + extras_]; }

 private:
  const std::span<const int> ring_;
  const std::size_t ring_index_, active_count_, extras_;
};

}  // namespace lockstep::comm
