// Call: what one rank asked for: as data, as it stands in every message's header, and in words for
// errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "comm/fabric/link.h"
#include "comm/reduction/types.h"

namespace lockstep {

enum class Operation : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  barrier,
  // Point to point, in this order: the sender offers (a small payload comes along), the receiver
  // grants when it has matched it, the sender sends the data.
  offer,
  grant,
  data,
};

// One collective. A buffer that the operation does not have on this rank is empty; where it works
// in place, that is the output.
struct Call {
  Header header;
  std::span<const std::byte> input{};
  std::span<std::byte> output{};

  Operation operation() const { return static_cast<Operation>(header.operation); }
  DataType type() const { return static_cast<DataType>(header.type); }
  ReduceOp reduce() const { return static_cast<ReduceOp>(header.reduce); }
  int root() const { return header.root; }
};

// bytes: of a rank's share, as the operation defines it, equal on all ranks.
Header make_header(Operation operation, std::uint64_t sequence, std::size_t bytes, DataType type,
                   ReduceOp reduce, int root);
std::string_view text(Operation operation);

// Whether two headers belong to the same call.
bool same_call(const Header& a, const Header& b);
// "all_reduce #17 (float32 sum, 4096 bytes)", "broadcast #3 (root 1, 10 bytes)"
std::string call_text(const Header& header);

}  // namespace lockstep
