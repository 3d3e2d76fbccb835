#include "comm/algorithm/recursive_doubling.h"

#include <cstddef>

#include "comm/algorithm/folded_all_reduce.h"
#include "comm/algorithm/swap.h"

namespace lockstep {
namespace {

class RecursiveDoubling : public FoldedAllReduce {
 public:
  using FoldedAllReduce::FoldedAllReduce;

 private:
  Result<void> reduce_in_pairs(std::size_t part) override {
    const auto all = parts_.range(part);
    for (std::size_t distance = 1; distance < cores(); distance *= 2) {
      const bool lower = is_lower(distance);
      TRY(swap_ranges(exchange_, peer(distance), parts_, part, all, all,
                      [&](auto piece, auto* came) { add(piece, came, lower); }));
    }
    divide(all);
    return {};
  }
};

}  // namespace

Result<void> recursive_doubling_all_reduce(Exchange& exchange, Parts& parts, DataType type,
                                           ReduceOp op) {
  return RecursiveDoubling(exchange, parts, type, op).run();
}

}  // namespace lockstep
