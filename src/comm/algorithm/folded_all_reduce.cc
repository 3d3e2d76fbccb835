#include "comm/algorithm/folded_all_reduce.h"

#include "comm/algorithm/copy.h"
#include "comm/algorithm/swap.h"
#include "comm/reduction/reduction.h"

namespace lockstep {

Result<void> FoldedAllReduce::run() {
  TRY(parts_.fill(0));
  for (std::size_t part = 0; part < parts_.count(); ++part)
    TRY(fold_.is_extra() ? let_reduce(part) : reduce(part));
  return parts_.spread(parts_.count() - 1);
}

void FoldedAllReduce::keep(ElementRange piece, const std::byte* came) const {
  copy_bytes(parts_.at(piece.begin), came, piece.count() * parts_.element());
}

void FoldedAllReduce::add(ElementRange piece, const std::byte* came, bool own_first) const {
  auto* const own = parts_.at(piece.begin);
  combine(own, own_first ? own : came, own_first ? came : own, piece.count(), type_, op_);
}

void FoldedAllReduce::divide(ElementRange range) const {
  finish(parts_.at(range.begin), range.count(), type_, op_, exchange_.size());
}

Result<void> FoldedAllReduce::let_reduce(std::size_t part) {
  const auto all = parts_.range(part);
  TRY(send_range(exchange_, fold_.partner(), parts_, all));
  TRY(parts_.overlap(part));
  return receive_range(exchange_, fold_.partner(), parts_, all,
                       [&](auto piece, auto* came) { keep(piece, came); });
}

Result<void> FoldedAllReduce::reduce(std::size_t part) {
  const auto all = parts_.range(part);
  if (fold_.is_keeper())
    TRY(receive_range(exchange_, fold_.partner(), parts_, all,
                      [&](auto piece, auto* came) { add(piece, came, true); }));
  TRY(reduce_in_pairs(part));
  return fold_.is_keeper() ? send_range(exchange_, fold_.partner(), parts_, all) : Result<void>();
}

}  // namespace lockstep
