#include "comm/algorithm/halving_doubling.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "comm/algorithm/copy.h"
#include "comm/algorithm/fold.h"
#include "comm/algorithm/slice.h"
#include "comm/algorithm/swap.h"
#include "comm/reduction/reduction.h"

namespace lockstep {
namespace {

class HalvingDoubling {
 public:
  HalvingDoubling(Exchange& exchange, Parts& parts, DataType type, ReduceOp op)
      : exchange_(exchange), parts_(parts), type_(type), op_(op), fold_(exchange) {}

  Result<void> run() {
    TRY(parts_.fill(0));
    for (std::size_t part = 0; part < parts_.count(); ++part)
      TRY(fold_.is_extra() ? let_reduce(part) : reduce(part));
    return parts_.spread(parts_.count() - 1);
  }

 private:
  void keep(ElementRange piece, const std::byte* came) const {
    copy_bytes(parts_.at(piece.begin), came, piece.count() * parts_.element());
  }
  void add(ElementRange piece, const std::byte* came, bool own_first) const {
    auto* const own = parts_.at(piece.begin);
    combine(own, own_first ? own : came, own_first ? came : own, piece.count(), type_, op_);
  }

  Result<void> let_reduce(std::size_t part) {
    const auto all = parts_.range(part);
    TRY(send_range(exchange_, fold_.partner(), parts_, all));
    TRY(parts_.overlap(part));
    return receive_range(exchange_, fold_.partner(), parts_, all,
                         [&](auto piece, auto* came) { keep(piece, came); });
  }

  Result<void> reduce(std::size_t part) {
    const auto all = parts_.range(part);
    if (fold_.is_keeper())
      TRY(receive_range(exchange_, fold_.partner(), parts_, all,
                        [&](auto piece, auto* came) { add(piece, came, true); }));
    TRY(halve_and_double(part));
    return fold_.is_keeper() ? send_range(exchange_, fold_.partner(), parts_, all) : Result<void>();
  }

  Result<void> halve_and_double(std::size_t part) {
    auto own = parts_.range(part);
    std::vector<ElementRange> given;  // in each round
    for (std::size_t distance = 1; distance < fold_.cores(); distance *= 2) {
      const bool lower = (fold_.core() & distance) == 0;
      const auto kept = cut(own, 2, lower ? 0 : 1);
      given.push_back(cut(own, 2, lower ? 1 : 0));
      TRY(swap_ranges(exchange_, peer(distance), parts_, part, given.back(), kept,
                      [&](auto piece, auto* came) { add(piece, came, lower); }));
      own = kept;
    }
    finish(parts_.at(own.begin), own.count(), type_, op_, exchange_.size());
    for (auto distance = fold_.cores() / 2; distance > 0; distance /= 2) {
      const auto missing = given.back();
      given.pop_back();
      TRY(swap_ranges(exchange_, peer(distance), parts_, part, own, missing,
                      [&](auto piece, auto* came) { keep(piece, came); }));
      own = {std::min(own.begin, missing.begin), std::max(own.end, missing.end)};
    }
    return {};
  }

  int peer(std::size_t distance) const { return fold_.rank_of(fold_.core() ^ distance); }

  Exchange& exchange_;
  Parts& parts_;
  const DataType type_;
  const ReduceOp op_;
  const Fold fold_;
};

}  // namespace

Result<void> halving_doubling_all_reduce(Exchange& exchange, Parts& parts, DataType type,
                                         ReduceOp op) {
  return HalvingDoubling(exchange, parts, type, op).run();
}

}  // namespace lockstep
