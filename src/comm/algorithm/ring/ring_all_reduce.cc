#include "comm/algorithm/ring/ring_all_reduce.h"

#include <cstddef>

#include "comm/algorithm/exchange/copy.h"
#include "comm/algorithm/exchange/slice.h"
#include "comm/algorithm/ring/ring.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {
namespace {

class RingAllReduce {
 public:
  RingAllReduce(MessageExchange& exchange, BufferParts& parts, DataType type, ReduceOp op)
      : exchange_(exchange),
        parts_(parts),
        type_(type),
        op_(op),
        ranks_(static_cast<std::size_t>(exchange.size())),
        neighbours_(ring_neighbours(exchange)),
        order_(exchange, (parts.longest() + ranks_ - 1) / ranks_, parts.element(),
               neighbours_.ring_index, 2 * (ranks_ - 1), parts.count()) {}

  Result<void> run() {
    for (std::size_t i = 0; i < order_.depth(); ++i) TRY(send_own(i));
    for (std::size_t i = 0; i < order_.messages(); ++i) TRY(take(i));
    return {};
  }

 private:
  ElementRange range_of(std::size_t chunk, std::size_t message) const {
    const auto whole = cut(parts_.range(order_.part(message)), ranks_, chunk);
    return order_.piece(message, cut(whole, order_.turns(), order_.turn(message)));
  }
  std::size_t sent_bytes(std::size_t message) const {
    return range_of(order_.sent_chunk(message), message).count() * parts_.element();
  }
  void copy_own(std::byte* slot, std::size_t message) const {
    const auto own = range_of(order_.sent_chunk(message), message);
    copy_bytes(slot, parts_.at(own.begin), own.count() * parts_.element());
  }
  Result<void> prepare(std::size_t message) {
    if (!order_.begins_part(message)) return {};
    return parts_.before_exchange(order_.part(message));
  }

  Result<void> send_own(std::size_t message) {
    TRY(prepare(message));
    copy_own(TRY(exchange_.claim(neighbours_.right)), message);
    exchange_.publish(neighbours_.right, message, sent_bytes(message));
    return {};
  }

  // Receives a message and sends the next one that this permits.
  Result<void> take(std::size_t message) {
    const auto range = range_of(order_.received_chunk(message), message);
    const auto bytes = range.count() * parts_.element();
    auto* own = parts_.at(range.begin);
    const auto* received = TRY(exchange_.receive(neighbours_.left, message, bytes));
    const auto next = message + order_.depth();
    const bool sends = next < order_.messages();
    if (sends) TRY(prepare(next));
    auto* slot = sends ? TRY(exchange_.claim(neighbours_.right)) : nullptr;

    const auto step = order_.step(message);
    if (step < ranks_ - 2) {  // a partial sum: only the next rank needs it
      combine(slot, received, own, range.count(), type_, op_);
    } else if (step == ranks_ - 2) {  // the last share
      combine(own, received, own, range.count(), type_, op_);
      finish(own, range.count(), type_, op_, exchange_.size());
      copy_bytes(slot, own, bytes);
    } else {
      copy_bytes(own, received, bytes);
      if (step < 2 * ranks_ - 3) {
        copy_bytes(slot, received, bytes);
      } else if (sends) {  // this turn ends, the next one begins
        copy_own(slot, next);
      }
    }
    if (sends) exchange_.publish(neighbours_.right, next, sent_bytes(next));
    exchange_.release(neighbours_.left);
    return order_.ends_part(message) ? parts_.after_exchange(order_.part(message)) : Result<void>();
  }

  MessageExchange& exchange_;
  BufferParts& parts_;
  const DataType type_;
  const ReduceOp op_;
  const std::size_t ranks_;
  const RingNeighbours neighbours_;
  const RingSchedule order_;
};

}  // namespace

Result<void> ring_all_reduce(MessageExchange& exchange, BufferParts& parts, DataType type,
                             ReduceOp op) {
  return RingAllReduce(exchange, parts, type, op).run();
}

}  // namespace lockstep::comm
