#include "comm/algorithm/recursive_doubling.h"

#include <cstddef>

#include "comm/algorithm/copy.h"
#include "comm/algorithm/fold.h"
#include "comm/algorithm/slice.h"
#include "comm/algorithm/swap.h"
#include "comm/reduction/reduction.h"

namespace lockstep {
namespace {

class RecursiveDoubling {
 public:
  RecursiveDoubling(Exchange& exchange, Parts& parts, DataType type, ReduceOp op)
      : exchange_(exchange), parts_(parts), type_(type), op_(op), fold_(exchange) {}

  Result<void> run() {
    TRY(parts_.fill(0));
    for (std::size_t part = 0; part < parts_.count(); ++part)
      TRY(fold_.is_extra() ? let_reduce(part) : reduce(part));
    return parts_.spread(parts_.count() - 1);
  }

 private:
  Result<void> let_reduce(std::size_t part) {
    const auto all = parts_.range(part);
    TRY(send_range(exchange_, fold_.partner(), parts_, all));
    TRY(parts_.overlap(part));
    return receive_range(exchange_, fold_.partner(), parts_, all, [&](auto piece, auto* came) {
      copy_bytes(parts_.at(piece.begin), came, piece.count() * parts_.element());
    });
  }

  Result<void> reduce(std::size_t part) {
    const auto all = parts_.range(part);
    const auto add_after_own = [&](ElementRange piece, const std::byte* came) {
      auto* const own = parts_.at(piece.begin);
      combine(own, own, came, piece.count(), type_, op_);
    };
    const auto add_before_own = [&](ElementRange piece, const std::byte* came) {
      auto* const own = parts_.at(piece.begin);
      combine(own, came, own, piece.count(), type_, op_);
    };
    if (fold_.is_keeper())
      TRY(receive_range(exchange_, fold_.partner(), parts_, all, add_after_own));
    for (std::size_t distance = 1; distance < fold_.cores(); distance *= 2) {
      const int peer = fold_.rank_of(fold_.core() ^ distance);
      const bool lower = (fold_.core() & distance) == 0;
      TRY(lower ? swap_ranges(exchange_, peer, parts_, part, all, all, add_after_own)
                : swap_ranges(exchange_, peer, parts_, part, all, all, add_before_own));
    }
    finish(parts_.at(all.begin), all.count(), type_, op_, exchange_.size());
    return fold_.is_keeper() ? send_range(exchange_, fold_.partner(), parts_, all) : Result<void>();
  }

  Exchange& exchange_;
  Parts& parts_;
  const DataType type_;
  const ReduceOp op_;
  const Fold fold_;
};

}  // namespace

Result<void> recursive_doubling_all_reduce(Exchange& exchange, Parts& parts, DataType type,
                                           ReduceOp op) {
  return RecursiveDoubling(exchange, parts, type, op).run();
}

}  // namespace lockstep
