#include "comm/collective/call.h"

#include <string_view>
#include <vector>

#include "base/format.h"

namespace lockstep {
namespace {

std::string_view name(Operation operation) {
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

}  // namespace

const FlightNames& flight_names() {
  static const auto* all = [] {
    static std::vector<std::string_view> operations, types, reductions;
    for (int code = 0; code <= static_cast<int>(Operation::data); ++code)
      operations.push_back(name(static_cast<Operation>(code)));
    for (const auto type : kDataTypes) types.push_back(text(type));
    for (const auto op : kReduceOps) reductions.push_back(text(op));
    return new FlightNames{operations, types, reductions};
  }();
  return *all;
}

FlightCall flight_call(const Header& header) {
  const auto operation = static_cast<Operation>(header.operation);
  const bool reduces = operation == Operation::all_reduce || operation == Operation::reduce ||
                       operation == Operation::reduce_scatter;
  const bool rooted = operation == Operation::broadcast || operation == Operation::reduce ||
                      operation == Operation::gather || operation == Operation::scatter;
  FlightCall call;
  call.sequence = header.sequence;
  call.bytes = header.bytes;
  call.operation = header.operation;
  if (rooted) call.root = header.root;
  if (reduces) call.type = header.type;
  if (reduces) call.reduction = header.reduce;
  return call;
}

Header make_header(Operation operation, std::uint64_t sequence, std::size_t bytes, DataType type,
                   ReduceOp reduce, int root) {
  Header header;
  header.sequence = sequence;
  header.bytes = bytes;
  header.root = root;
  header.operation = static_cast<std::uint8_t>(operation);
  header.type = static_cast<std::uint8_t>(type);
  header.reduce = static_cast<std::uint8_t>(reduce);
  return header;
}

bool same_call(const Header& a, const Header& b) {
  return a.sequence == b.sequence && a.bytes == b.bytes && a.root == b.root &&
         a.operation == b.operation && a.type == b.type && a.reduce == b.reduce;
}

std::string call_text(const Header& header) {
  const auto operation = static_cast<Operation>(header.operation);
  auto start = format("{} #{}", name(operation), header.sequence);
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

}  // namespace lockstep
