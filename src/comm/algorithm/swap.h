// How parts of a buffer travel between two ranks: one way, or both ways at the same time.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/result.h"
#include "comm/algorithm/copy.h"
#include "comm/algorithm/exchange.h"
#include "comm/algorithm/parts.h"
#include "comm/algorithm/slice.h"

namespace lockstep {

inline std::size_t pieces_of(const Exchange& exchange, const Parts& parts, ElementRange range) {
  return pieces_of(range.count(), exchange.piece_bytes() / parts.element());
}

inline Result<void> send_piece(Exchange& exchange, int peer, const Parts& parts, ElementRange range,
                               std::size_t pieces, std::size_t i) {
  const auto piece = cut(range, pieces, i);
  const auto bytes = piece.count() * parts.element();
  copy_bytes(TRY(exchange.claim(peer)), parts.at(piece.begin), bytes);
  exchange.publish(peer, i, bytes);
  return {};
}

inline Result<void> send_range(Exchange& exchange, int peer, const Parts& parts,
                               ElementRange range) {
  const auto pieces = pieces_of(exchange, parts, range);
  for (std::size_t i = 0; i < pieces; ++i) TRY(send_piece(exchange, peer, parts, range, pieces, i));
  return {};
}

// take(piece, came): what to do with the elements of a piece, before its slot is given back.
template <class Take>
Result<void> receive_piece(Exchange& exchange, int peer, const Parts& parts, ElementRange range,
                           std::size_t pieces, std::size_t i, Take take) {
  const auto piece = cut(range, pieces, i);
  const auto* came = TRY(exchange.receive(peer, i, piece.count() * parts.element()));
  take(piece, came);
  exchange.release(peer);
  return {};
}

template <class Take>
Result<void> receive_range(Exchange& exchange, int peer, const Parts& parts, ElementRange range,
                           Take take) {
  const auto pieces = pieces_of(exchange, parts, range);
  for (std::size_t i = 0; i < pieces; ++i)
    TRY(receive_piece(exchange, peer, parts, range, pieces, i, take));
  return {};
}

// Sends `out` of part `part` to a peer that sends `in`. Each piece is on its way before the piece
// of the same number is taken, so `take` may overwrite what was sent.
//
// Why it does not get stuck: who waits for room has sent more pieces than the peer has taken, so
// what the peer waits for, if it waits, is there.
template <class Take>
Result<void> swap_ranges(Exchange& exchange, int peer, Parts& parts, std::size_t part,
                         ElementRange out, ElementRange in, Take take) {
  constexpr std::size_t kAhead = 2;
  static_assert(kAhead < kSlots);
  const auto sends = pieces_of(exchange, parts, out), receives = pieces_of(exchange, parts, in);
  std::size_t sent = 0;
  const auto send_up_to = [&](std::size_t end) -> Result<void> {
    for (; sent < std::min(end, sends); ++sent)
      TRY(send_piece(exchange, peer, parts, out, sends, sent));
    return {};
  };
  TRY(send_up_to(kAhead));
  TRY(parts.overlap(part));
  for (std::size_t i = 0; i < std::max(sends, receives); ++i) {
    TRY(send_up_to(i + kAhead));
    if (i < receives) TRY(receive_piece(exchange, peer, parts, in, receives, i, take));
  }
  return {};
}

}  // namespace lockstep
