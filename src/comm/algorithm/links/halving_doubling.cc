#include "comm/algorithm/links/halving_doubling.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "comm/algorithm/exchange/slice.h"
#include "comm/algorithm/exchange/transfer.h"
#include "comm/algorithm/links/power_of_two_all_reduce.h"

namespace lockstep::comm {
namespace {

class HalvingDoubling : public PowerOfTwoAllReduce {
 public:
  using PowerOfTwoAllReduce::PowerOfTwoAllReduce;

 private:
  Result<void> reduce_in_pairs(std::size_t part) override {
    auto own = parts_.range(part);
    std::vector<ElementRange> given;  // in each round
    for (std::size_t distance = 1; distance < active_count(); distance *= 2) {
      const bool lower = is_lower(distance);
      const auto kept = cut(own, 2, lower ? 0 : 1);
      given.push_back(cut(own, 2, lower ? 1 : 0));
      TRY(send_and_receive_ranges(
          exchange_, peer(distance), parts_, part, given.back(), kept,
          [&](auto piece, auto* received) { add_received(piece, received, lower); }));
      own = kept;
    }
    finish_average(own);
    for (auto distance = active_count() / 2; distance > 0; distance /= 2) {
      const auto missing = given.back();
      given.pop_back();
      TRY(send_and_receive_ranges(
          exchange_, peer(distance), parts_, part, own, missing,
          [&](auto piece, auto* received) { copy_received(piece, received); }));
      own = {std::min(own.begin, missing.begin), std::max(own.end, missing.end)};
    }
    return {};
  }
};

}  // namespace

Result<void> halving_doubling_all_reduce(MessageExchange& exchange, BufferParts& parts,
                                         DataType type, ReduceOp op) {
  return HalvingDoubling(exchange, parts, type, op).run();
}

}  // namespace lockstep::comm
