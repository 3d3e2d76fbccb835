// Call: what one rank asked for, as it stands in every message's header, and in words for errors.
#pragma once

#include <cstdint>
#include <string>

#include "comm/fabric/link.h"
#include "comm/reduction/types.h"

namespace lockstep {

enum class Operation : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  barrier,
  // Point to point, in this order: the sender offers (a small payload comes along), the receiver
  // grants when it has matched it, the sender sends the data.
  offer,
  grant,
  data,
};

Header make_header(Operation operation, std::uint64_t sequence, std::size_t bytes, DataType type,
                   ReduceOp reduce, int root);
// Whether two headers belong to the same call.
bool same_call(const Header& a, const Header& b);
// "all_reduce #17 (float32 sum, 4096 bytes)", "broadcast #3 (root 1, 10 bytes)"
std::string call_text(const Header& header);

}  // namespace lockstep
