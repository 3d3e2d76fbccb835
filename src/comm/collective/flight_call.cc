#include "comm/collective/flight_call.h"

#include <cstdint>
#include <string_view>
#include <vector>

#include "comm/algorithm/collective_call.h"
#include "comm/reduction/types.h"

namespace lockstep::comm {
namespace {

// Codes after the operations that a header can contain.
constexpr auto kSend = static_cast<std::uint8_t>(Operation::data) + 1;
constexpr auto kRecv = kSend + 1;

FlightCall exchange_call(int operation, std::size_t bytes, int peer, int tag) {
  FlightCall call;
  call.bytes = bytes;
  call.root = tag;
  call.peer = peer;
  call.operation = static_cast<std::uint8_t>(operation);
  return call;
}

}  // namespace

const FlightNames& flight_names() {
  static const auto* all = [] {
    static std::vector<std::string_view> operations, types, reductions;
    for (int code = 0; code <= static_cast<int>(Operation::data); ++code)
      operations.push_back(text(static_cast<Operation>(code)));
    operations.insert(operations.end(), {"send", "recv"});  // kSend, kRecv
    for (const auto type : kDataTypes) types.push_back(text(type));
    for (const auto op : kReduceOps) reductions.push_back(text(op));
    return new FlightNames{operations, types, reductions, kRecv};
  }();
  return *all;
}

FlightCall flight_call(const MessageHeader& header) {
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

FlightCall flight_send(std::size_t bytes, int peer, int tag) {
  return exchange_call(kSend, bytes, peer, tag);
}

FlightCall flight_recv(std::size_t bytes, int peer, int tag) {
  return exchange_call(kRecv, bytes, peer, tag);
}

}  // namespace lockstep::comm
