#include "comm/algorithm/collective_call.h"

#include <string_view>

#include "base/format.h"

namespace lockstep::comm {

std::string_view text(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all_reduce";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::all_gather:
      return "all_gather";
    case Operation::broadcast:
      return "broadcast";
    case Operation::reduce:
      return "reduce";
    case Operation::gather:
      return "gather";
    case Operation::scatter:
      return "scatter";
    case Operation::all_to_all:
      return "all_to_all";
    case Operation::barrier:
      return "barrier";
    case Operation::offer:
    case Operation::grant:
    case Operation::data:
      return "send";
  }
  return "an unknown operation";
}

MessageHeader make_header(Operation operation, std::uint64_t sequence, std::size_t bytes,
                          DataType type, ReduceOp reduce, int root) {
  MessageHeader header;
  header.sequence = sequence;
  header.bytes = bytes;
  header.root = root;
  header.operation = static_cast<std::uint8_t>(operation);
  header.type = static_cast<std::uint8_t>(type);
  header.reduce = static_cast<std::uint8_t>(reduce);
  return header;
}

bool same_call(const MessageHeader& a, const MessageHeader& b) {
  return a.sequence == b.sequence && a.bytes == b.bytes && a.root == b.root &&
         a.operation == b.operation && a.type == b.type && a.reduce == b.reduce;
}

std::string call_text(const MessageHeader& header) {
  const auto operation = static_cast<Operation>(header.operation);
  auto start = format("{} #{}", text(operation), header.sequence);
  switch (operation) {
    case Operation::all_reduce:
    case Operation::reduce_scatter:
      return format("{} ({} {}, {} bytes)", start, text(static_cast<DataType>(header.type)),
                    text(static_cast<ReduceOp>(header.reduce)), header.bytes);
    case Operation::reduce:
      return format("{} (root {}, {} {}, {} bytes)", start, header.root,
                    text(static_cast<DataType>(header.type)),
                    text(static_cast<ReduceOp>(header.reduce)), header.bytes);
    case Operation::broadcast:
    case Operation::gather:
    case Operation::scatter:
      return format("{} (root {}, {} bytes)", start, header.root, header.bytes);
    case Operation::all_gather:
    case Operation::all_to_all:
      return format("{} ({} bytes)", start, header.bytes);
    case Operation::barrier:
      return start;
    default:
      return format("{} (tag {}, {} bytes)", start, header.root, header.bytes);
  }
}

}  // namespace lockstep::comm
