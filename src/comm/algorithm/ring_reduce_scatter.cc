#include "comm/algorithm/ring_reduce_scatter.h"

#include <algorithm>

#include "comm/algorithm/copy.h"
#include "comm/algorithm/ring.h"
#include "comm/reduction/reduction.h"

namespace lockstep {
namespace {

class RingReduceScatter {
 public:
  // block: bytes.
  RingReduceScatter(Exchange& exchange, const ShareOf& share, std::size_t block, DataType type)
      : exchange_(exchange),
        share_(share),
        type_(type),
        element_(size_of(type)),
        ranks_(static_cast<std::size_t>(exchange.size())),
        block_(block / element_),
        at_(neighbours(exchange)),
        // One place back, so that the chunk which is complete at the end is the own one.
        order_(exchange, block_, element_, at_.place + exchange.size() - 1, ranks_ - 1) {}

  Result<void> run(const std::vector<bool>& has_block, std::byte* output, ReduceOp op) {
    for (std::size_t i = 0; i < first_messages(); ++i) TRY(send_own(has_block, i));
    for (std::size_t i = 0; i < order_.messages(); ++i) TRY(take(has_block, output, op, i));
    return {};
  }

  Result<void> make_shares() {
    for (std::size_t i = 0; i < first_messages(); ++i) TRY(share(order_.sent_chunk(i), i));
    for (std::size_t i = 0; i < order_.messages(); ++i) {
      TRY(share(order_.received_chunk(i), i));
      if (begins_anew(i)) TRY(share(order_.sent_chunk(i + order_.depth()), i + order_.depth()));
    }
    return {};
  }

 private:
  std::size_t first_messages() const { return std::min(order_.depth(), order_.messages()); }
  bool ends(std::size_t message) const { return order_.step(message) == ranks_ - 2; }
  // Whether this message ends its turn and allows to begin another.
  bool begins_anew(std::size_t message) const {
    return ends(message) && message + order_.depth() < order_.messages();
  }
  ElementRange piece(std::size_t message) const {
    return order_.piece(message, cut(block_, order_.turns(), order_.turn(message)));
  }
  Result<const std::byte*> share(std::size_t chunk, std::size_t message) const {
    return share_(chunk, piece(message));
  }

  Result<void> send_own(const std::vector<bool>& has_block, std::size_t message) {
    const auto chunk = order_.sent_chunk(message);
    const auto bytes = has_block[chunk] ? piece(message).count() * element_ : 0;
    const auto* own = TRY(share(chunk, message));
    copy_bytes(TRY(exchange_.claim(at_.right)), own, bytes);
    exchange_.publish(at_.right, message, bytes);
    return {};
  }

  // Receives a message and sends the one that it allows.
  Result<void> take(const std::vector<bool>& has_block, std::byte* output, ReduceOp op,
                    std::size_t message) {
    const auto chunk = order_.received_chunk(message);
    const auto count = has_block[chunk] ? piece(message).count() : 0;
    const auto* came = TRY(exchange_.receive(at_.left, message, count * element_));
    const auto* own = TRY(share(chunk, message));
    if (!ends(message)) {
      combine(TRY(exchange_.claim(at_.right)), came, own, count, type_, op);
      exchange_.publish(at_.right, message + order_.depth(), count * element_);
      exchange_.release(at_.left);
      return {};
    }
    if (count > 0) {
      auto* const result = output + piece(message).begin * element_;
      combine(result, came, own, count, type_, op);
      finish(result, count, type_, op, exchange_.size());
    }
    exchange_.release(at_.left);
    return begins_anew(message) ? send_own(has_block, message + order_.depth()) : Result<void>();
  }

  Exchange& exchange_;
  const ShareOf& share_;
  const DataType type_;
  const std::size_t element_, ranks_, block_;
  const Neighbours at_;
  const RingOrder order_;
};

}  // namespace

Result<void> ring_reduce_scatter(Exchange& exchange, const std::vector<bool>& has_block,
                                 std::size_t block, const ShareOf& share, std::byte* output,
                                 DataType type, ReduceOp op) {
  return RingReduceScatter(exchange, share, block, type).run(has_block, output, op);
}

Result<void> make_shares(Exchange& exchange, std::size_t block, const ShareOf& share,
                         DataType type) {
  return RingReduceScatter(exchange, share, block, type).make_shares();
}

Result<void> ring_reduce_scatter(Exchange& exchange, std::span<const std::byte> input,
                                 std::span<std::byte> output, DataType type, ReduceOp op) {
  const auto ring = exchange.ring();
  const auto in_input = [&](std::size_t place, ElementRange range) -> Result<const std::byte*> {
    return input.data() + static_cast<std::size_t>(ring[place]) * output.size() +
           range.begin * size_of(type);
  };
  const std::vector<bool> all(ring.size(), true);
  return ring_reduce_scatter(exchange, all, output.size(), ShareOf(in_input), output.data(), type,
                             op);
}

}  // namespace lockstep
