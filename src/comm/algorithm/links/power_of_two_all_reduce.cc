#include "comm/algorithm/links/power_of_two_all_reduce.h"

#include "comm/algorithm/exchange/copy.h"
#include "comm/algorithm/exchange/transfer.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {

Result<void> PowerOfTwoAllReduce::run() {
  TRY(parts_.before_exchange(0));
  for (std::size_t part = 0; part < parts_.count(); ++part)
    TRY(fold_.is_extra() ? reduce_by_proxy(part) : reduce(part));
  return parts_.after_exchange(parts_.count() - 1);
}

void PowerOfTwoAllReduce::copy_received(ElementRange piece, const std::byte* received) const {
  copy_bytes(parts_.at(piece.begin), received, piece.count() * parts_.element());
}

void PowerOfTwoAllReduce::add_received(ElementRange piece, const std::byte* received,
                                       bool own_first) const {
  auto* const own = parts_.at(piece.begin);
  combine(own, own_first ? own : received, own_first ? received : own, piece.count(), type_, op_);
}

void PowerOfTwoAllReduce::finish_average(ElementRange range) const {
  finish(parts_.at(range.begin), range.count(), type_, op_, exchange_.size());
}

Result<void> PowerOfTwoAllReduce::reduce_by_proxy(std::size_t part) {
  const auto all = parts_.range(part);
  TRY(send_range(exchange_, fold_.partner(), parts_, all));
  TRY(parts_.run_neighbour_hooks(part));
  return receive_range(exchange_, fold_.partner(), parts_, all,
                       [&](auto piece, auto* received) { copy_received(piece, received); });
}

Result<void> PowerOfTwoAllReduce::reduce(std::size_t part) {
  const auto all = parts_.range(part);
  if (fold_.is_proxy())
    TRY(receive_range(exchange_, fold_.partner(), parts_, all,
                      [&](auto piece, auto* received) { add_received(piece, received, true); }));
  TRY(reduce_in_pairs(part));
  return fold_.is_proxy() ? send_range(exchange_, fold_.partner(), parts_, all) : Result<void>();
}

}  // namespace lockstep::comm
