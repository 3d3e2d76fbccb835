// Fold: n ranks as a power of two of them, for algorithms in which ranks meet in pairs. With r = n
// - p extra ranks, p the largest power of two up to n, the first 2 r places of the ring are r
// pairs; of each pair the second, the extra one, gives its data to the first, its keeper, and gets
// the result back. (As in Rabenseifner 2004, section 3.)
#pragma once

#include <bit>
#include <cstddef>
#include <span>

#include "comm/algorithm/exchange.h"
#include "comm/algorithm/ring.h"

namespace lockstep {

class Fold {
 public:
  explicit Fold(const Exchange& exchange)
      : ring_(exchange.ring()),
        place_(static_cast<std::size_t>(neighbours(exchange).place)),
        cores_(std::bit_floor(ring_.size())),
        extras_(ring_.size() - cores_) {}

  bool is_extra() const { return place_ < 2 * extras_ && place_ % 2 == 1; }
  bool is_keeper() const { return place_ < 2 * extras_ && place_ % 2 == 0; }
  // The rank that is the other of the pair.
  int partner() const { return ring_[is_extra() ? place_ - 1 : place_ + 1]; }

  // Of those that are not extra: how many there are, the number of this one, the rank of one.
  // Ascending with the place in the ring.
  std::size_t cores() const { return cores_; }
  std::size_t core() const { return place_ < 2 * extras_ ? place_ / 2 : place_ - extras_; }
  int rank_of(std::size_t core) const { return ring_[core < extras_ ? 2 * core : core + extras_]; }

 private:
  const std::span<const int> ring_;
  const std::size_t place_, cores_, extras_;
};

}  // namespace lockstep
