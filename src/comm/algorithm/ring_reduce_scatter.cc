#include "comm/algorithm/ring_reduce_scatter.h"

#include "comm/algorithm/copy.h"
#include "comm/algorithm/ring.h"
#include "comm/reduction/reduction.h"

namespace lockstep {
namespace {

class ReduceScatter {
 public:
  ReduceScatter(Exchange& exchange, std::span<const std::byte> input, std::span<std::byte> output,
                DataType type, ReduceOp op)
      : exchange_(exchange),
        input_(input.data()),
        output_(output.data()),
        type_(type),
        op_(op),
        element_(size_of(type)),
        ranks_(static_cast<std::size_t>(exchange.size())),
        block_(output.size() / element_),
        at_(neighbours(exchange)),
        // One place back, so that the chunk which is complete at the end is the own one.
        order_(exchange, block_, element_, at_.place + exchange.size() - 1, ranks_ - 1) {}

  Result<void> run() {
    const auto first = std::min(order_.depth(), order_.messages());
    for (std::size_t i = 0; i < first; ++i) {
      copy_own(TRY(exchange_.claim(at_.right)), i);
      exchange_.publish(at_.right, i, bytes_of(i));
    }
    for (std::size_t i = 0; i < order_.messages(); ++i) TRY(take(i));
    return {};
  }

 private:
  std::size_t bytes_of(std::size_t message) const {
    return order_.piece(message, block_).count() * element_;
  }
  const std::byte* share(std::size_t chunk, std::size_t message) const {
    const auto rank = static_cast<std::size_t>(exchange_.ring()[chunk]);
    return input_ + (rank * block_ + order_.piece(message, block_).begin) * element_;
  }
  void copy_own(std::byte* slot, std::size_t message) const {
    copy_bytes(slot, share(order_.sent_chunk(message), message), bytes_of(message));
  }

  // Receives a message and sends the one that it allows.
  Result<void> take(std::size_t message) {
    const auto piece = order_.piece(message, block_);
    const auto* own = share(order_.received_chunk(message), message);
    const auto* came = TRY(exchange_.receive(at_.left, message, bytes_of(message)));
    const auto next = message + order_.depth();
    const bool sends = next < order_.messages();
    auto* slot = sends ? TRY(exchange_.claim(at_.right)) : nullptr;

    if (order_.step(message) < ranks_ - 2) {
      combine(slot, came, own, piece.count(), type_, op_);
    } else {
      auto* result = output_ + piece.begin * element_;
      combine(result, came, own, piece.count(), type_, op_);
      finish(result, piece.count(), type_, op_, exchange_.size());
      if (sends) copy_own(slot, next);
    }
    if (sends) exchange_.publish(at_.right, next, bytes_of(next));
    exchange_.release(at_.left);
    return {};
  }

  Exchange& exchange_;
  const std::byte* const input_;
  std::byte* const output_;
  const DataType type_;
  const ReduceOp op_;
  const std::size_t element_, ranks_, block_;
  const Neighbours at_;
  const RingOrder order_;
};

}  // namespace

Result<void> ring_reduce_scatter(Exchange& exchange, std::span<const std::byte> input,
                                 std::span<std::byte> output, DataType type, ReduceOp op) {
  return ReduceScatter(exchange, input, output, type, op).run();
}

}  // namespace lockstep
