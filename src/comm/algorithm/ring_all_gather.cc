#include "comm/algorithm/ring_all_gather.h"

#include <algorithm>

#include "comm/algorithm/copy.h"
#include "comm/algorithm/ring.h"

namespace lockstep {
namespace {

class RingAllGather {
 public:
  RingAllGather(Exchange& exchange, std::size_t block, std::byte* output, const Gathered& gathered)
      : exchange_(exchange),
        output_(output),
        gathered_(gathered),
        ranks_(static_cast<std::size_t>(exchange.size())),
        block_(block),
        at_(neighbours(exchange)),
        order_(exchange, block, 1, at_.place, ranks_ - 1) {}

  Result<void> run() {
    const auto first = std::min(order_.depth(), order_.messages());
    for (std::size_t i = 0; i < first; ++i) {
      copy_own(TRY(exchange_.claim(at_.right)), i);
      exchange_.publish(at_.right, i, piece(i).count());
    }
    for (std::size_t i = 0; i < order_.messages(); ++i) TRY(take(i));
    return {};
  }

 private:
  ElementRange turn(std::size_t message) const {
    return cut(block_, order_.turns(), order_.turn(message));
  }
  ElementRange piece(std::size_t message) const { return order_.piece(message, turn(message)); }
  std::byte* place_of(std::size_t chunk, std::size_t message) const {
    const auto rank = static_cast<std::size_t>(exchange_.ring()[chunk]);
    return output_ + rank * block_ + piece(message).begin;
  }
  void copy_own(std::byte* slot, std::size_t message) const {
    copy_bytes(slot, place_of(order_.sent_chunk(message), message), piece(message).count());
  }

  // Receives a message and sends the one that it allows.
  Result<void> take(std::size_t message) {
    const auto bytes = piece(message).count();
    const auto* came = TRY(exchange_.receive(at_.left, message, bytes));
    copy_bytes(place_of(order_.received_chunk(message), message), came, bytes);
    const auto next = message + order_.depth();
    if (next < order_.messages()) {
      auto* slot = TRY(exchange_.claim(at_.right));
      if (order_.step(message) < ranks_ - 2)
        copy_bytes(slot, came, bytes);
      else
        copy_own(slot, next);
      exchange_.publish(at_.right, next, piece(next).count());
    }
    exchange_.release(at_.left);
    if (!gathered_ || !order_.ends_turn(message)) return {};
    return gathered_({turn(message).begin, turn(message).end});
  }

  Exchange& exchange_;
  std::byte* const output_;
  const Gathered& gathered_;
  const std::size_t ranks_, block_;
  const Neighbours at_;
  const RingOrder order_;
};

}  // namespace

Result<void> ring_all_gather(Exchange& exchange, std::span<const std::byte> input,
                             std::span<std::byte> output, const Gathered& gathered) {
  auto* own = output.data() + static_cast<std::size_t>(exchange.rank()) * input.size();
  if (own != input.data()) copy_bytes(own, input.data(), input.size());
  return RingAllGather(exchange, input.size(), output.data(), gathered).run();
}

}  // namespace lockstep
