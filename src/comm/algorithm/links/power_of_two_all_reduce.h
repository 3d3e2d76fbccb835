// PowerOfTwoAllReduce: the common base of the all-reduces in which ranks exchange in pairs. Parts
// (buffer_parts.h) go one after the other. For each part the extra ranks (power_of_two_ranks.h)
// send their data to their proxies and get the result back.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "comm/algorithm/exchange/buffer_parts.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/algorithm/exchange/power_of_two_ranks.h"
#include "comm/reduction/types.h"

namespace lockstep::comm {

class PowerOfTwoAllReduce {
 public:
  PowerOfTwoAllReduce(MessageExchange& exchange, BufferParts& parts, DataType type, ReduceOp op)
      : exchange_(exchange), parts_(parts), type_(type), op_(op), fold_(exchange) {}
  virtual ~PowerOfTwoAllReduce() = default;

  Result<void> run();

 protected:
  // All-reduces a part among the ranks that are not extra, and divides an average.
  virtual Result<void> reduce_in_pairs(std::size_t part) = 0;

  // Processes received elements.
  void copy_received(ElementRange piece, const std::byte* received) const;
  void add_received(ElementRange piece, const std::byte* received, bool own_first) const;
  void finish_average(ElementRange range) const;
  // The active rank at this distance, and whether it comes after this rank.
  int peer(std::size_t distance) const { return fold_.rank_of(fold_.active_index() ^ distance); }
  bool is_lower(std::size_t distance) const { return (fold_.active_index() & distance) == 0; }

  std::size_t active_count() const { return fold_.active_count(); }

  MessageExchange& exchange_;
  BufferParts& parts_;

 private:
  Result<void> reduce_by_proxy(std::size_t part);
  Result<void> reduce(std::size_t part);

  const DataType type_;
  const ReduceOp op_;
  const PowerOfTwoRanks fold_;
};

}  // namespace lockstep::comm
