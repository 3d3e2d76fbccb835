// CollectiveCall: what one rank requested. It exists as data, as the header of every message, and
// as text for errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "comm/fabric/link.h"
#include "comm/reduction/types.h"

namespace lockstep::comm {

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
  // Point to point, in this order: the sender offers (with a small payload), the receiver grants
  // after it has matched the offer, the sender sends the data.
  offer,
  grant,
  data,
};

// One collective. A buffer that the operation does not use on this rank is empty. An in-place
// operation uses the output.
struct CollectiveCall {
  MessageHeader header;
  std::span<const std::byte> input{};
  std::span<std::byte> output{};

  Operation operation() const { return static_cast<Operation>(header.operation); }
  DataType type() const { return static_cast<DataType>(header.type); }
  ReduceOp reduce() const { return static_cast<ReduceOp>(header.reduce); }
  int root() const { return header.root; }
};

// bytes: of a rank's share, as the operation defines it, equal on all ranks.
MessageHeader make_header(Operation operation, std::uint64_t sequence, std::size_t bytes,
                          DataType type, ReduceOp reduce, int root);
std::string_view text(Operation operation);

// True if two headers belong to the same call.
bool same_call(const MessageHeader& a, const MessageHeader& b);
// "all_reduce #17 (float32 sum, 4096 bytes)", "broadcast #3 (root 1, 10 bytes)"
std::string call_text(const MessageHeader& header);

}  // namespace lockstep::comm
