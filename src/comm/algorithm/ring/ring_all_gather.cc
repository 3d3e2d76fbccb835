#include "comm/algorithm/ring/ring_all_gather.h"

#include <algorithm>

#include "comm/algorithm/exchange/copy.h"
#include "comm/algorithm/ring/ring.h"

namespace lockstep::comm {
namespace {

class RingAllGather {
 public:
  RingAllGather(MessageExchange& exchange, std::span<const int> owners, std::size_t block,
                std::byte* output, const RangeCallback& gathered)
      : exchange_(exchange),
        owners_(owners),
        output_(output),
        gathered_(gathered),
        ranks_(static_cast<std::size_t>(exchange.size())),
        block_(block),
        neighbours_(ring_neighbours(exchange)),
        order_(exchange, block, 1, neighbours_.ring_index, ranks_ - 1) {}

  Result<void> run() {
    const auto first = std::min(order_.depth(), order_.messages());
    for (std::size_t i = 0; i < first; ++i) {
      copy_own(TRY(exchange_.claim(neighbours_.right)), i);
      exchange_.publish(neighbours_.right, i, bytes_of(order_.sent_chunk(i), i));
    }
    for (std::size_t i = 0; i < order_.messages(); ++i) TRY(take(i));
    return {};
  }

 private:
  ElementRange turn(std::size_t message) const {
    return cut(block_, order_.turns(), order_.turn(message));
  }
  ElementRange piece(std::size_t message) const { return order_.piece(message, turn(message)); }
  std::size_t bytes_of(std::size_t chunk, std::size_t message) const {
    return owners_[chunk] < 0 ? 0 : piece(message).count();
  }
  std::byte* address_of(std::size_t chunk, std::size_t message) const {
    if (owners_[chunk] < 0) return nullptr;
    return output_ + static_cast<std::size_t>(owners_[chunk]) * block_ + piece(message).begin;
  }
  void copy_own(std::byte* slot, std::size_t message) const {
    const auto chunk = order_.sent_chunk(message);
    copy_bytes(slot, address_of(chunk, message), bytes_of(chunk, message));
  }

  // Receives a message and sends the next one that this permits.
  Result<void> take(std::size_t message) {
    const auto chunk = order_.received_chunk(message);
    const auto bytes = bytes_of(chunk, message);
    const auto* received = TRY(exchange_.receive(neighbours_.left, message, bytes));
    copy_bytes(address_of(chunk, message), received, bytes);
    const auto next = message + order_.depth();
    if (next < order_.messages()) {
      auto* slot = TRY(exchange_.claim(neighbours_.right));
      if (order_.step(message) < ranks_ - 2)
        copy_bytes(slot, received, bytes);
      else
        copy_own(slot, next);
      exchange_.publish(neighbours_.right, next, bytes_of(order_.sent_chunk(next), next));
    }
    exchange_.release(neighbours_.left);
    if (!gathered_ || !order_.ends_turn(message)) return {};
    return gathered_({turn(message).begin, turn(message).end});
  }

  MessageExchange& exchange_;
  const std::span<const int> owners_;
  std::byte* const output_;
  const RangeCallback& gathered_;
  const std::size_t ranks_, block_;
  const RingNeighbours neighbours_;
  const RingSchedule order_;
};

}  // namespace

Result<void> ring_all_gather(MessageExchange& exchange, std::span<const int> owners,
                             std::size_t block, std::span<std::byte> output,
                             const RangeCallback& gathered) {
  return RingAllGather(exchange, owners, block, output.data(), gathered).run();
}

std::size_t gathered_range_count(const MessageExchange& exchange, std::size_t block) {
  return RingSchedule(exchange, block, 1, 0, 1).turns();
}

Result<void> ring_all_gather(MessageExchange& exchange, std::span<const std::byte> input,
                             std::span<std::byte> output) {
  auto* own = output.data() + static_cast<std::size_t>(exchange.rank()) * input.size();
  if (own != input.data()) copy_bytes(own, input.data(), input.size());
  return ring_all_gather(exchange, exchange.ring(), input.size(), output, {});
}

}  // namespace lockstep::comm
