#include "comm/algorithm/halving_doubling.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "comm/algorithm/folded_all_reduce.h"
#include "comm/algorithm/slice.h"
#include "comm/algorithm/swap.h"

namespace lockstep {
namespace {

class HalvingDoubling : public FoldedAllReduce {
 public:
  using FoldedAllReduce::FoldedAllReduce;

 private:
  Result<void> reduce_in_pairs(std::size_t part) override {
    auto own = parts_.range(part);
    std::vector<ElementRange> given;  // in each round
    for (std::size_t distance = 1; distance < cores(); distance *= 2) {
      const bool lower = is_lower(distance);
      const auto kept = cut(own, 2, lower ? 0 : 1);
      given.push_back(cut(own, 2, lower ? 1 : 0));
      TRY(swap_ranges(exchange_, peer(distance), parts_, part, given.back(), kept,
                      [&](auto piece, auto* came) { add(piece, came, lower); }));
      own = kept;
    }
    divide(own);
    for (auto distance = cores() / 2; distance > 0; distance /= 2) {
      const auto missing = given.back();
      given.pop_back();
      TRY(swap_ranges(exchange_, peer(distance), parts_, part, own, missing,
                      [&](auto piece, auto* came) { keep(piece, came); }));
      own = {std::min(own.begin, missing.begin), std::max(own.end, missing.end)};
    }
    return {};
  }
};

}  // namespace

Result<void> halving_doubling_all_reduce(Exchange& exchange, Parts& parts, DataType type,
                                         ReduceOp op) {
  return HalvingDoubling(exchange, parts, type, op).run();
}

}  // namespace lockstep
