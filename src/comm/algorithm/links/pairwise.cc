#include "comm/algorithm/links/pairwise.h"

#include <cstring>

#include "comm/algorithm/exchange/copy.h"
#include "comm/algorithm/exchange/slice.h"

namespace lockstep::comm {
namespace {

Result<void> send_piece(MessageExchange& exchange, int peer, std::span<const std::byte> block,
                        std::size_t pieces, std::size_t i) {
  const auto range = cut(block.size(), pieces, i);
  copy_bytes(TRY(exchange.claim(peer)), block.data() + range.begin, range.count());
  exchange.publish(peer, i, range.count());
  return {};
}

Result<void> receive_piece(MessageExchange& exchange, int peer, std::span<std::byte> block,
                           std::size_t pieces, std::size_t i) {
  const auto range = cut(block.size(), pieces, i);
  const auto* received = TRY(exchange.receive(peer, i, range.count()));
  copy_bytes(block.data() + range.begin, received, range.count());
  exchange.release(peer);
  return {};
}

void keep_own(std::span<const std::byte> from, std::span<std::byte> to) {
  if (!from.empty()) std::memmove(to.data(), from.data(), from.size());
}

template <class DeviceRange>
DeviceRange block_of(DeviceRange blocks, int rank, std::size_t bytes) {
  return blocks.subspan(static_cast<std::size_t>(rank) * bytes, bytes);
}

}  // namespace

// Takes pieces of all ranks in turn, so that all of them send at the same time.
Result<void> pairwise_gather(MessageExchange& exchange, std::span<const std::byte> input,
                             std::span<std::byte> output, int root) {
  const auto pieces = piece_count(input.size(), exchange.piece_bytes());
  for (std::size_t i = 0; i < pieces; ++i) {
    if (exchange.rank() != root) {
      TRY(send_piece(exchange, root, input, pieces, i));
      continue;
    }
    for (int peer = 0; peer < exchange.size(); ++peer)
      if (peer != root)
        TRY(receive_piece(exchange, peer, block_of(output, peer, input.size()), pieces, i));
  }
  if (exchange.rank() == root) keep_own(input, block_of(output, root, input.size()));
  return {};
}

Result<void> pairwise_scatter(MessageExchange& exchange, std::span<const std::byte> input,
                              std::span<std::byte> output, int root) {
  const auto pieces = piece_count(output.size(), exchange.piece_bytes());
  for (std::size_t i = 0; i < pieces; ++i) {
    if (exchange.rank() != root) {
      TRY(receive_piece(exchange, root, output, pieces, i));
      continue;
    }
    for (int peer = 0; peer < exchange.size(); ++peer)
      if (peer != root)
        TRY(send_piece(exchange, peer, block_of(input, peer, output.size()), pieces, i));
  }
  if (exchange.rank() == root) keep_own(block_of(input, root, output.size()), output);
  return {};
}

// Why there is no deadlock: a rank that waits for a free slot to a peer has sent kSlots pieces that
// the peer has not received, though it has itself received as many as it has sent. So that peer has
// sent fewer pieces in total. Along a cycle of waiting ranks that number would decrease forever.
Result<void> pairwise_all_to_all(MessageExchange& exchange, std::span<const std::byte> input,
                                 std::span<std::byte> output) {
  const int size = exchange.size(), rank = exchange.rank();
  const auto block = input.size() / static_cast<std::size_t>(size);
  const auto pieces = piece_count(block, exchange.piece_bytes());
  keep_own(block_of(input, rank, block), block_of(output, rank, block));
  for (int step = 1; step < size; ++step) {
    const int to = (rank + step) % size, from = (rank + size - step) % size;
    for (std::size_t i = 0; i < pieces; ++i) {
      TRY(send_piece(exchange, to, block_of(input, to, block), pieces, i));
      TRY(receive_piece(exchange, from, block_of(output, from, block), pieces, i));
    }
  }
  return {};
}

}  // namespace lockstep::comm
