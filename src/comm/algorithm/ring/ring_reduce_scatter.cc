#include "comm/algorithm/ring/ring_reduce_scatter.h"

#include <algorithm>

#include "comm/algorithm/exchange/copy.h"
#include "comm/algorithm/ring/ring.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {
namespace {

class RingReduceScatter {
 public:
  // block: bytes.
  RingReduceScatter(MessageExchange& exchange, const ShareFunction& share, std::size_t block,
                    DataType type)
      : exchange_(exchange),
        share_(share),
        type_(type),
        element_(size_of(type)),
        ranks_(static_cast<std::size_t>(exchange.size())),
        block_(block / element_),
        neighbours_(ring_neighbours(exchange)),
        // Starts one index back, so that the chunk which is complete at the end is the rank's own.
        order_(exchange, block_, element_, neighbours_.ring_index + exchange.size() - 1,
               ranks_ - 1) {}

  Result<void> run(const std::vector<bool>& has_block, std::byte* output, ReduceOp op) {
    for (std::size_t i = 0; i < first_messages(); ++i) TRY(send_own(has_block, i));
    for (std::size_t i = 0; i < order_.messages(); ++i) TRY(take(has_block, output, op, i));
    return {};
  }

  Result<void> make_shares() {
    for (std::size_t i = 0; i < first_messages(); ++i) TRY(share(order_.sent_chunk(i), i));
    for (std::size_t i = 0; i < order_.messages(); ++i) {
      TRY(share(order_.received_chunk(i), i));
      if (starts_next_turn(i))
        TRY(share(order_.sent_chunk(i + order_.depth()), i + order_.depth()));
    }
    return {};
  }

 private:
  std::size_t first_messages() const { return std::min(order_.depth(), order_.messages()); }
  bool ends(std::size_t message) const { return order_.step(message) == ranks_ - 2; }
  // True if this message ends its turn and permits the next turn to begin.
  bool starts_next_turn(std::size_t message) const {
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
    copy_bytes(TRY(exchange_.claim(neighbours_.right)), own, bytes);
    exchange_.publish(neighbours_.right, message, bytes);
    return {};
  }

  // Receives a message and sends the next one that this permits.
  Result<void> take(const std::vector<bool>& has_block, std::byte* output, ReduceOp op,
                    std::size_t message) {
    const auto chunk = order_.received_chunk(message);
    const auto count = has_block[chunk] ? piece(message).count() : 0;
    const auto* received = TRY(exchange_.receive(neighbours_.left, message, count * element_));
    const auto* own = TRY(share(chunk, message));
    if (!ends(message)) {
      combine(TRY(exchange_.claim(neighbours_.right)), received, own, count, type_, op);
      exchange_.publish(neighbours_.right, message + order_.depth(), count * element_);
      exchange_.release(neighbours_.left);
      return {};
    }
    if (count > 0) {
      auto* const result = output + piece(message).begin * element_;
      combine(result, received, own, count, type_, op);
      finish(result, count, type_, op, exchange_.size());
    }
    exchange_.release(neighbours_.left);
    return starts_next_turn(message) ? send_own(has_block, message + order_.depth())
                                     : Result<void>();
  }

  MessageExchange& exchange_;
  const ShareFunction& share_;
  const DataType type_;
  const std::size_t element_, ranks_, block_;
  const RingNeighbours neighbours_;
  const RingSchedule order_;
};

}  // namespace

Result<void> ring_reduce_scatter(MessageExchange& exchange, const std::vector<bool>& has_block,
                                 std::size_t block, const ShareFunction& share, std::byte* output,
                                 DataType type, ReduceOp op) {
  return RingReduceScatter(exchange, share, block, type).run(has_block, output, op);
}

Result<void> compute_shares(MessageExchange& exchange, std::size_t block,
                            const ShareFunction& share, DataType type) {
  return RingReduceScatter(exchange, share, block, type).make_shares();
}

Result<void> ring_reduce_scatter(MessageExchange& exchange, std::span<const std::byte> input,
                                 std::span<std::byte> output, DataType type, ReduceOp op) {
  const auto ring = exchange.ring();
  const auto in_input = [&](std::size_t ring_index,
                            ElementRange range) -> Result<const std::byte*> {
    return input.data() + static_cast<std::size_t>(ring[ring_index]) * output.size() +
           range.begin * size_of(type);
  };
  const std::vector<bool> all(ring.size(), true);
  return ring_reduce_scatter(exchange, all, output.size(), ShareFunction(in_input), output.data(),
                             type, op);
}

}  // namespace lockstep::comm
