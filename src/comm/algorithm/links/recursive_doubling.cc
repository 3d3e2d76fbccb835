#include "comm/algorithm/links/recursive_doubling.h"

#include <cstddef>

#include "comm/algorithm/exchange/transfer.h"
#include "comm/algorithm/links/power_of_two_all_reduce.h"

namespace lockstep::comm {
namespace {

class RecursiveDoubling : public PowerOfTwoAllReduce {
 public:
  using PowerOfTwoAllReduce::PowerOfTwoAllReduce;

 private:
  Result<void> reduce_in_pairs(std::size_t part) override {
    const auto all = parts_.range(part);
    for (std::size_t distance = 1; distance < active_count(); distance *= 2) {
      const bool lower = is_lower(distance);
      TRY(send_and_receive_ranges(
          exchange_, peer(distance), parts_, part, all, all,
          [&](auto piece, auto* received) { add_received(piece, received, lower); }));
    }
    finish_average(all);
    return {};
  }
};

}  // namespace

Result<void> recursive_doubling_all_reduce(MessageExchange& exchange, BufferParts& parts,
                                           DataType type, ReduceOp op) {
  return RecursiveDoubling(exchange, parts, type, op).run();
}

}  // namespace lockstep::comm
