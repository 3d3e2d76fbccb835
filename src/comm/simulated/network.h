// SimulatedNetwork: the algorithms' own code, run by thousands of ranks in virtual time. The
// question that it answers is the one that no machine here can: does the latency of a tree grow
// with log n up to 16,384 ranks, and is what predict() says of an algorithm what it does?
//
// Method. Each rank is a fiber with an Exchange of its own; a wait inside it gives the turn to the
// rank whose next moment is the earliest. Messages hold real data, so results are checked too. All
// that decides is in order of (virtual time, order of asking), in whole picoseconds: the same run
// gives the same times, always.
//
// What a message of b bytes costs, with the constants of its level (comm/cost/costs.h):
//   - the sender is busy for `overhead`, and so is the receiver, when it takes the message;
//   - it leaves when the sender's port is free, takes b * per_byte there, and as much, at the same
//     time but for the wire's latency, at the receiver's port. Between hosts the ports are the
//     host's, which all its ranks share, within a host each rank has its own; a port goes both ways
//     at once;
//   - a lone message takes latency + b * per_byte from claim to receive;
//   - who runs ahead is held back as by the links of comm/fabric. Within a host, and with RDMA, by
//     credits: a slot that was released is the sender's again after the wire's latency. Over TCP
//     (held_bytes > 0) by the connection: a slot is the sender's again when the kernel has taken
//     it, in segments; the two kernels hold held_bytes, until the receiver, which has kSlots slots
//     of its own, has read them and the sender heard of it.
// Arithmetic and copying take no time: constants are compared with `reduction` zero.
//
// Limits. No shared memory: host() is null, so of a hierarchical algorithm what happens between
// hosts runs here, by the ranks of all hosts at once. Wires lose nothing and switches do not block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/cost/costs.h"
#include "comm/fabric/link.h"

namespace lockstep {

struct SimulatedShape {
  int hosts = 1;
  int ranks_per_host = 1;  // ranks 0, 1, ... are on the first host, then come those of the next
  Costs costs = {};
  std::size_t piece_bytes = 4096;
  std::size_t held_bytes = kHeldBytes;   // of each connection between hosts; 0: they have credits
  std::size_t stack_bytes = 128 * 1024;  // of each rank; what is not touched takes no memory
};

struct SimulatedRun {
  double seconds = 0;                     // until the last rank had ended
  std::uint64_t messages = 0;             // sent
  std::vector<std::uint64_t> wire_bytes;  // that each host sent to others
};

// Runs body(exchange) on every rank. Fails with the error that came first; and when ranks wait for
// each other for ever, naming one of them.
Result<SimulatedRun> simulate(const SimulatedShape& shape,
                              const std::function<Result<void>(Exchange&)>& body);

}  // namespace lockstep
