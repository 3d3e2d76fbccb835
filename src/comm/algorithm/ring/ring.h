// The common part of the ring algorithms: a rank's neighbours, and the order of pieces.
//
// The data is n chunks, one for each ring index. At step s the rank at index p sends chunk p - s
// (mod n) to its right and receives chunk p - s - 1 from its left. To overlap transfer and
// arithmetic and to stay in cache, chunks are cut into pieces of at most a slot, and the ring runs
// several turns. In each turn `depth` pieces of every chunk make all steps. Message i is piece (i
// mod depth) of step (i / depth mod steps) of turn (i / depth / steps). Turns belong to parts
// (buffer_parts.h), the same number to each part.
//
// A rank first sends `depth` messages, and then message i + depth when it has received message i.
// Within a turn that is the next step of the same piece, so received data is forwarded at once.
//
// Why there is no deadlock: all ranks together have at most n * depth messages in flight, and a
// link holds kSlots > depth of them. So the links are never all full, and some rank can always
// continue.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/algorithm/exchange/slice.h"
#include "comm/fabric/link.h"

namespace lockstep::comm {

struct RingNeighbours {
  int ring_index;  // of this rank
  int left;        // ranks
  int right;
};

inline RingNeighbours ring_neighbours(const MessageExchange& exchange) {
  const auto ring = exchange.ring();
  const auto n = ring.size();
  const auto found = std::find(ring.begin(), ring.end(), exchange.rank());
  LS_CHECK(found != ring.end());
  const auto ring_index = static_cast<std::size_t>(found - ring.begin());
  return {static_cast<int>(ring_index), ring[(ring_index + n - 1) % n], ring[(ring_index + 1) % n]};
}

// The number of pieces of each chunk in a turn. One for short chunks: two messages would cost more
// than their overlap gains. Three for long chunks: one is on the wire, one is processed, and one
// more covers the time for which a rank waits for its processor.
inline std::size_t ring_depth(std::size_t chunk_bytes, std::size_t piece_bytes) {
  constexpr std::size_t kSmallChunk = 20 * 1024;
  static_assert(3 < kSlots);
  if (chunk_bytes < kSmallChunk) return 1;
  return chunk_bytes <= 2 * piece_bytes ? 2 : 3;
}

// The largest size of the pieces in which `bytes` go along a chain of ranks. The last rank is idle
// until the first piece has passed all others, which should be short compared with the rest.
inline std::size_t chain_piece_bytes(std::size_t bytes, std::size_t ranks, std::size_t most) {
  constexpr std::size_t kPiecesPerRank = 4, kLeast = 32 * 1024;
  return std::clamp(bytes / (kPiecesPerRank * ranks), std::min(kLeast, most), most);
}

class RingSchedule {
 public:
  // For chunks of at most `chunk` elements of `element` bytes in each part.
  RingSchedule(const MessageExchange& exchange, std::size_t chunk, std::size_t element,
               int ring_index, std::size_t steps, std::size_t parts = 1)
      : ranks_(static_cast<std::size_t>(exchange.size())),
        ring_index_(static_cast<std::size_t>(ring_index)),
        steps_(steps),
        depth_(ring_depth(chunk * element, exchange.piece_bytes())),
        turns_((piece_count(chunk, exchange.piece_bytes() / element) + depth_ - 1) / depth_),
        parts_(parts) {}

  std::size_t depth() const { return depth_; }
  std::size_t turns() const { return turns_; }  // of a part
  std::size_t messages() const { return parts_ * turns_ * steps_ * depth_; }
  std::size_t part(std::size_t message) const { return message / depth_ / steps_ / turns_; }
  std::size_t turn(std::size_t message) const { return message / depth_ / steps_ % turns_; }
  std::size_t step(std::size_t message) const { return message / depth_ % steps_; }
  std::size_t sent_chunk(std::size_t message) const {
    return (ring_index_ + 2 * ranks_ - step(message)) % ranks_;
  }
  std::size_t received_chunk(std::size_t message) const {
    return (ring_index_ + 2 * ranks_ - step(message) - 1) % ranks_;
  }
  bool begins_part(std::size_t message) const { return message % (depth_ * steps_ * turns_) == 0; }
  bool ends_turn(std::size_t message) const { return (message + 1) % (depth_ * steps_) == 0; }
  bool ends_part(std::size_t message) const { return begins_part(message + 1); }

  // The elements of its turn's chunk that a message carries. Chunks are cut into turns, and not
  // turns into chunks, so each rank sends the same amount for every number of turns.
  ElementRange piece(std::size_t message, ElementRange of_turn) const {
    return cut(of_turn, depth_, message % depth_);
  }

 private:
  const std::size_t ranks_, ring_index_, steps_, depth_, turns_, parts_;
};

}  // namespace lockstep::comm
