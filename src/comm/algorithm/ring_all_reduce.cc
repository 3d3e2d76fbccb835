#include "comm/algorithm/ring_all_reduce.h"

#include "comm/algorithm/copy.h"
#include "comm/algorithm/ring.h"
#include "comm/reduction/reduction.h"

namespace lockstep {
namespace {

class AllReduce {
 public:
  AllReduce(Exchange& exchange, std::span<std::byte> buffer, DataType type, ReduceOp op)
      : exchange_(exchange),
        buffer_(buffer.data()),
        type_(type),
        op_(op),
        element_(size_of(type)),
        ranks_(static_cast<std::size_t>(exchange.size())),
        elements_(buffer.size() / element_),
        at_(neighbours(exchange)),
        order_(exchange, (elements_ + ranks_ - 1) / ranks_, element_, at_.place, 2 * (ranks_ - 1)) {
  }

  Result<void> run() {
    for (std::size_t i = 0; i < order_.depth(); ++i) TRY(send_own(i));
    for (std::size_t i = 0; i < order_.messages(); ++i) TRY(take(i));
    return {};
  }

 private:
  ElementRange place_of(std::size_t chunk, std::size_t message) const {
    const auto whole = cut(elements_, ranks_, chunk);
    const auto piece = order_.piece(message, whole.count());
    return {whole.begin + piece.begin, whole.begin + piece.end};
  }

  void copy_own(std::byte* slot, std::size_t message) const {
    const auto own = place_of(order_.sent_chunk(message), message);
    copy_bytes(slot, buffer_ + own.begin * element_, own.count() * element_);
  }
  std::size_t sent_bytes(std::size_t message) const {
    return place_of(order_.sent_chunk(message), message).count() * element_;
  }

  Result<void> send_own(std::size_t message) {
    copy_own(TRY(exchange_.claim(at_.right)), message);
    exchange_.publish(at_.right, message, sent_bytes(message));
    return {};
  }

  // Receives a message and sends the one that it allows.
  Result<void> take(std::size_t message) {
    const auto range = place_of(order_.received_chunk(message), message);
    const auto bytes = range.count() * element_;
    auto* own = buffer_ + range.begin * element_;
    const auto* came = TRY(exchange_.receive(at_.left, message, bytes));
    const auto next = message + order_.depth();
    const bool sends = next < order_.messages();
    auto* slot = sends ? TRY(exchange_.claim(at_.right)) : nullptr;

    const auto step = order_.step(message);
    if (step < ranks_ - 2) {  // a partial sum: only the next rank needs it
      combine(slot, came, own, range.count(), type_, op_);
    } else if (step == ranks_ - 2) {  // the last share
      combine(own, came, own, range.count(), type_, op_);
      finish(own, range.count(), type_, op_, exchange_.size());
      copy_bytes(slot, own, bytes);
    } else {
      copy_bytes(own, came, bytes);
      if (step < 2 * ranks_ - 3) {
        copy_bytes(slot, came, bytes);
      } else if (sends) {  // this turn is over, the next begins
        copy_own(slot, next);
      }
    }
    if (sends) exchange_.publish(at_.right, next, sent_bytes(next));
    exchange_.release(at_.left);
    return {};
  }

  Exchange& exchange_;
  std::byte* const buffer_;
  const DataType type_;
  const ReduceOp op_;
  const std::size_t element_, ranks_, elements_;
  const Neighbours at_;
  const RingOrder order_;
};

}  // namespace

Result<void> ring_all_reduce(Exchange& exchange, std::span<std::byte> buffer, DataType type,
                             ReduceOp op) {
  return AllReduce(exchange, buffer, type, op).run();
}

}  // namespace lockstep
