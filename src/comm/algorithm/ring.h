// What the ring algorithms share: who my neighbours are, and in which order pieces travel.
//
// The data is n chunks, one for each place in the ring; at step s the rank at place p sends chunk
// p - s (mod n) to its right and receives chunk p - s - 1 from its left. So that transfer and
// arithmetic overlap and everything stays in cache, chunks are cut into pieces of at most a slot,
// and the ring goes around several times: in each turn `depth` pieces of every chunk make all
// steps. Message i is piece (i mod depth) of step (i / depth mod steps) of turn (i / depth /
// steps). Turns belong to parts (parts.h), each part to the same number of them.
//
// A rank first sends `depth` messages, and then message i + depth when it has received message i.
// Within a turn that is the next step of the same piece, so what was received goes on at once.
//
// Why it does not get stuck: all ranks together have at most n * depth messages under way, a link
// holds kSlots > depth of them, so never are all links full, and some rank can always go on.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "comm/algorithm/exchange.h"
#include "comm/algorithm/slice.h"
#include "comm/fabric/link.h"

namespace lockstep {

struct Neighbours {
  int place;  // mine in the ring
  int left;   // ranks
  int right;
};

inline Neighbours neighbours(const Exchange& exchange) {
  const auto ring = exchange.ring();
  const auto n = ring.size();
  const auto found = std::find(ring.begin(), ring.end(), exchange.rank());
  LS_CHECK(found != ring.end());
  const auto place = static_cast<std::size_t>(found - ring.begin());
  return {static_cast<int>(place), ring[(place + n - 1) % n], ring[(place + 1) % n]};
}

// How many pieces of each chunk a turn sends. Of shorter chunks one: two messages would cost more
// than their overlap gains. Of long ones three: while one is on the wire and one is worked on,
// there is another for the time for which a rank waits for its processor.
inline std::size_t ring_depth(std::size_t chunk_bytes, std::size_t piece_bytes) {
  constexpr std::size_t kSmallChunk = 20 * 1024;
  static_assert(3 < kSlots);
  if (chunk_bytes < kSmallChunk) return 1;
  return chunk_bytes <= 2 * piece_bytes ? 2 : 3;
}

// In pieces of at most which size so many bytes go along a chain of ranks: the last one has nothing
// to do before the first piece has come all the way, which should not take long beside the rest.
inline std::size_t chain_piece_bytes(std::size_t bytes, std::size_t ranks, std::size_t most) {
  constexpr std::size_t kPiecesPerRank = 4, kLeast = 32 * 1024;
  return std::clamp(bytes / (kPiecesPerRank * ranks), std::min(kLeast, most), most);
}

class RingOrder {
 public:
  // For chunks of at most `chunk` elements of `element` bytes in each part.
  RingOrder(const Exchange& exchange, std::size_t chunk, std::size_t element, int place,
            std::size_t steps, std::size_t parts = 1)
      : ranks_(static_cast<std::size_t>(exchange.size())),
        place_(static_cast<std::size_t>(place)),
        steps_(steps),
        depth_(ring_depth(chunk * element, exchange.piece_bytes())),
        turns_((pieces_of(chunk, exchange.piece_bytes() / element) + depth_ - 1) / depth_),
        parts_(parts) {}

  std::size_t depth() const { return depth_; }
  std::size_t turns() const { return turns_; }  // of a part
  std::size_t messages() const { return parts_ * turns_ * steps_ * depth_; }
  std::size_t part(std::size_t message) const { return message / depth_ / steps_ / turns_; }
  std::size_t turn(std::size_t message) const { return message / depth_ / steps_ % turns_; }
  std::size_t step(std::size_t message) const { return message / depth_ % steps_; }
  std::size_t sent_chunk(std::size_t message) const {
    return (place_ + 2 * ranks_ - step(message)) % ranks_;
  }
  std::size_t received_chunk(std::size_t message) const {
    return (place_ + 2 * ranks_ - step(message) - 1) % ranks_;
  }
  bool begins_part(std::size_t message) const { return message % (depth_ * steps_ * turns_) == 0; }
  bool ends_turn(std::size_t message) const { return (message + 1) % (depth_ * steps_) == 0; }
  bool ends_part(std::size_t message) const { return begins_part(message + 1); }

  // Which elements a message carries of what its turn holds of its chunk. Chunks are cut into turns
  // and not turns into chunks: so each rank sends as much, however many turns there are.
  ElementRange piece(std::size_t message, ElementRange of_turn) const {
    return cut(of_turn, depth_, message % depth_);
  }

 private:
  const std::size_t ranks_, place_, steps_, depth_, turns_, parts_;
};

}  // namespace lockstep
