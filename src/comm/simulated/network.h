// SimulatedNetwork: runs the algorithms' own code with thousands of ranks in virtual time. It
// answers questions that no machine here can: does the latency of a tree grow with log n up to
// 16,384 ranks, and is the prediction of predict() right?
//
// Method. Each rank is a fiber with its own MessageExchange. A wait inside it switches to the rank
// with the earliest next time. Messages contain real data, so results are checked too. All events
// are in the order of (virtual time, order of creation), in whole picoseconds: the same run always
// gives the same times.
//
// The cost of a message of b bytes, with the constants of its level (comm/cost/costs.h):
//   - the sender is busy for `overhead`, and so is the receiver, when it receives the message;
//   - it leaves when the sender's port is free, and occupies that port for b * per_byte. It
//   occupies
//     the receiver's port for the same duration, later by the wire's latency. Between hosts all
//     ranks of a host share its port; within a host each rank has its own. A port is full duplex;
//   - a single message takes latency + b * per_byte from claim to receive;
//   - a rank that is ahead is blocked as by the links of comm/fabric. Within a host, and with RDMA,
//     by credits: a released slot is available to the sender after the wire's latency. Over TCP
//     (socket_buffer_bytes > 0) by the connection: a slot is available when the kernel has accepted
//     it, in segments. The two kernels buffer socket_buffer_bytes, until the receiver, which has
//     kSlots slots of its own, has read them and the sender has the acknowledgement.
// Arithmetic and copying take no time: constants are compared with `reduction` zero.
//
// Limits. No shared memory: host_group() is null. So only the part of a hierarchical algorithm
// between hosts runs here, by the ranks of all hosts at once. Wires lose nothing and switches do
// not block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/cost/costs.h"
#include "comm/fabric/link.h"

namespace lockstep::comm {

struct SimulatedCluster {
  int hosts = 1;
  int ranks_per_host = 1;  // ranks 0, 1, ... are on the first host, then those of the next
  Costs costs = {};
  std::size_t piece_bytes = 4096;
  std::size_t socket_buffer_bytes =
      kSocketBufferBytes;                // of each connection between hosts; 0: they have credits
  std::size_t stack_bytes = 128 * 1024;  // of each rank; unused pages take no memory
};

struct SimulationResult {
  double seconds = 0;                     // until the last rank had ended
  std::uint64_t messages = 0;             // sent
  std::vector<std::uint64_t> wire_bytes;  // that each host sent to others
};

// Runs body(exchange) on every rank. Fails with the first error. Also fails when ranks wait for
// each other forever; the error names one of them.
Result<SimulationResult> simulate(const SimulatedCluster& shape,
                                  const std::function<Result<void>(MessageExchange&)>& body);

}  // namespace lockstep::comm
