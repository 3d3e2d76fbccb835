// FoldedAllReduce: what the all-reduces have in common in which ranks meet in pairs: parts
// (parts.h) go one after the other, and of each the extra ranks (fold.h) give theirs to their
// keepers and get the result back.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/algorithm/fold.h"
#include "comm/algorithm/parts.h"
#include "comm/reduction/types.h"

namespace lockstep {

class FoldedAllReduce {
 public:
  FoldedAllReduce(Exchange& exchange, Parts& parts, DataType type, ReduceOp op)
      : exchange_(exchange), parts_(parts), type_(type), op_(op), fold_(exchange) {}
  virtual ~FoldedAllReduce() = default;

  Result<void> run();

 protected:
  // All-reduces a part among the ranks that are not extra, and divides an average.
  virtual Result<void> reduce_in_pairs(std::size_t part) = 0;

  // What to do with elements that came.
  void keep(ElementRange piece, const std::byte* came) const;
  void add(ElementRange piece, const std::byte* came, bool own_first) const;
  void divide(ElementRange range) const;
  // Who is so far away among those that are not extra; whether it comes after this rank.
  int peer(std::size_t distance) const { return fold_.rank_of(fold_.core() ^ distance); }
  bool is_lower(std::size_t distance) const { return (fold_.core() & distance) == 0; }

  std::size_t cores() const { return fold_.cores(); }

  Exchange& exchange_;
  Parts& parts_;

 private:
  Result<void> let_reduce(std::size_t part);
  Result<void> reduce(std::size_t part);

  const DataType type_;
  const ReduceOp op_;
  const Fold fold_;
};

}  // namespace lockstep
