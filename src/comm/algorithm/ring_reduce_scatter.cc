#include "comm/algorithm/ring_reduce_scatter.h"

#include <algorithm>

#include "comm/algorithm/copy.h"
#include "comm/algorithm/ring.h"
#include "comm/reduction/reduction.h"

namespace lockstep {
namespace {

class RingReduceScatter {
 public:
  RingReduceScatter(Exchange& exchange, const ShareOf& share, std::span<std::byte> output,
                    DataType type, ReduceOp op)
      : exchange_(exchange),
        share_(share),
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
    for (std::size_t i = 0; i < first; ++i) TRY(send_own(i));
    for (std::size_t i = 0; i < order_.messages(); ++i) TRY(take(i));
    return {};
  }

 private:
  ElementRange piece(std::size_t message) const {
    return order_.piece(message, cut(block_, order_.turns(), order_.turn(message)));
  }
  std::size_t bytes_of(std::size_t message) const { return piece(message).count() * element_; }
  Result<const std::byte*> share(std::size_t chunk, std::size_t message) const {
    return share_(exchange_.ring()[chunk], piece(message));
  }

  Result<void> send_own(std::size_t message) {
    const auto* own = TRY(share(order_.sent_chunk(message), message));
    copy_bytes(TRY(exchange_.claim(at_.right)), own, bytes_of(message));
    exchange_.publish(at_.right, message, bytes_of(message));
    return {};
  }

  // Receives a message and sends the one that it allows.
  Result<void> take(std::size_t message) {
    const auto count = piece(message).count();
    const auto* came = TRY(exchange_.receive(at_.left, message, bytes_of(message)));
    const auto* own = TRY(share(order_.received_chunk(message), message));
    const auto next = message + order_.depth();
    if (order_.step(message) < ranks_ - 2) {
      combine(TRY(exchange_.claim(at_.right)), came, own, count, type_, op_);
      exchange_.publish(at_.right, next, bytes_of(next));
      exchange_.release(at_.left);
      return {};
    }
    auto* result = output_ + piece(message).begin * element_;
    combine(result, came, own, count, type_, op_);
    finish(result, count, type_, op_, exchange_.size());
    exchange_.release(at_.left);
    return next < order_.messages() ? send_own(next) : Result<void>();
  }

  Exchange& exchange_;
  const ShareOf& share_;
  std::byte* const output_;
  const DataType type_;
  const ReduceOp op_;
  const std::size_t element_, ranks_, block_;
  const Neighbours at_;
  const RingOrder order_;
};

}  // namespace

Result<void> ring_reduce_scatter(Exchange& exchange, const ShareOf& share,
                                 std::span<std::byte> output, DataType type, ReduceOp op) {
  return RingReduceScatter(exchange, share, output, type, op).run();
}

Result<void> ring_reduce_scatter(Exchange& exchange, std::span<const std::byte> input,
                                 std::span<std::byte> output, DataType type, ReduceOp op) {
  const auto in_input = [&](int rank, ElementRange range) -> Result<const std::byte*> {
    return input.data() + static_cast<std::size_t>(rank) * output.size() +
           range.begin * size_of(type);
  };
  return ring_reduce_scatter(exchange, ShareOf(in_input), output, type, op);
}

}  // namespace lockstep
