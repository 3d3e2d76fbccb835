// How parts of a buffer are sent between two ranks: in one direction, or in both at the same time.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/result.h"
#include "comm/algorithm/exchange/buffer_parts.h"
#include "comm/algorithm/exchange/copy.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/algorithm/exchange/slice.h"

namespace lockstep::comm {

inline std::size_t piece_count(const MessageExchange& exchange, const BufferParts& parts,
                               ElementRange range) {
  return piece_count(range.count(), exchange.piece_bytes() / parts.element());
}

inline Result<void> send_piece(MessageExchange& exchange, int peer, const BufferParts& parts,
                               ElementRange range, std::size_t pieces, std::size_t i) {
  const auto piece = cut(range, pieces, i);
  const auto bytes = piece.count() * parts.element();
  copy_bytes(TRY(exchange.claim(peer)), parts.at(piece.begin), bytes);
  exchange.publish(peer, i, bytes);
  return {};
}

inline Result<void> send_range(MessageExchange& exchange, int peer, const BufferParts& parts,
                               ElementRange range) {
  const auto pieces = piece_count(exchange, parts, range);
  for (std::size_t i = 0; i < pieces; ++i) TRY(send_piece(exchange, peer, parts, range, pieces, i));
  return {};
}

// take(piece, came): processes the elements of a piece, before its slot is released.
template <class Take>
Result<void> receive_piece(MessageExchange& exchange, int peer, const BufferParts& parts,
                           ElementRange range, std::size_t pieces, std::size_t i, Take take) {
  const auto piece = cut(range, pieces, i);
  const auto* received = TRY(exchange.receive(peer, i, piece.count() * parts.element()));
  take(piece, received);
  exchange.release(peer);
  return {};
}

template <class Take>
Result<void> receive_range(MessageExchange& exchange, int peer, const BufferParts& parts,
                           ElementRange range, Take take) {
  const auto pieces = piece_count(exchange, parts, range);
  for (std::size_t i = 0; i < pieces; ++i)
    TRY(receive_piece(exchange, peer, parts, range, pieces, i, take));
  return {};
}

// Sends `out` of part `part` to a peer that sends `in`. Each piece is sent before the piece of the
// same number is received, so `take` may overwrite sent data.
//
// Why there is no deadlock: a rank that waits for a free slot has sent more pieces than the peer
// has received. So if the peer waits, the piece for which it waits is available.
template <class Take>
Result<void> send_and_receive_ranges(MessageExchange& exchange, int peer, BufferParts& parts,
                                     std::size_t part, ElementRange out, ElementRange in,
                                     Take take) {
  constexpr std::size_t kAhead = 2;
  static_assert(kAhead < kSlots);
  const auto sends = piece_count(exchange, parts, out), receives = piece_count(exchange, parts, in);
  std::size_t sent = 0;
  const auto send_up_to = [&](std::size_t end) -> Result<void> {
    for (; sent < std::min(end, sends); ++sent)
      TRY(send_piece(exchange, peer, parts, out, sends, sent));
    return {};
  };
  TRY(send_up_to(kAhead));
  TRY(parts.run_neighbour_hooks(part));
  for (std::size_t i = 0; i < std::max(sends, receives); ++i) {
    TRY(send_up_to(i + kAhead));
    if (i < receives) TRY(receive_piece(exchange, peer, parts, in, receives, i, take));
  }
  return {};
}

}  // namespace lockstep::comm
