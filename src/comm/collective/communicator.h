// Communicator: one group of ranks that exchange data.
//
// Every call returns at once with a Pending; its buffers must stay alive and untouched until that
// is done. With CallMode::blocking it returns when it is done, which is the fastest for who would
// wait at once. Collectives run one after the other in the order of submission, which must be the
// same on all ranks of the group; send and recv run beside them. A call with bad arguments (bytes
// that are no multiple of the type, a root out of range, the average of integers) is refused in its
// Pending, is not sent to anybody, and leaves the communicator usable.
//
// Any other failure ends the communicator: the connection to a peer is lost, a peer is silent for
// the time-out, calls do not match between ranks, abort(). The first cause is kept, every pending
// and every later call fails with it, and so do those of the other ranks. But for abort(), all
// ranks say the same: which rank is at fault, where each rank is and which one is late. A message
// names a rank by its number in the run. A lost connection and a time-out are told as a GroupFault
// before any call ends with them.
//
// The result of a reduction is bitwise equal on all ranks and from run to run (same ranks, same
// hosts, same sizes). 16-bit floats are added in 32 bits; they are rounded once within a host, and
// after each rank between hosts.
//
// Buffers from allocate() lie in memory that the ranks of a host share: with them, collectives
// within a host copy nothing. Buffers from elsewhere are copied on their way.
//
// In a forked child every call is refused: the group is its parent's.
//
// Limits: at most 256 sends to one peer that it has not matched with a recv are under way; further
// ones wait their turn. 65,536 sends and receives may be under way or wait; a further one is
// refused (Code::exhausted), as is the 1,048,577th collective. Safe to call from several threads,
// but collectives submitted from several threads have no order of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "comm/collective/buffer.h"
#include "comm/collective/call_mode.h"
#include "comm/collective/pending.h"
#include "comm/cost/costs.h"
#include "comm/fabric/address/network_options.h"
#include "comm/group/members.h"
#include "comm/reduction/types.h"
#include "comm/rendezvous/rendezvous.h"
#include "net/crypto.h"

namespace lockstep {

class Crew;

struct CommunicatorOptions {
  int rank = 0;
  int size = 1;
  std::string host_id = {};     // ranks with equal ids may share memory, others never do
  Secret secret;                // the attempt's; every connection proves it
  std::string group = "world";  // a key space in the rendezvous; a new name for each new group
  Members members = {};         // for messages; empty: all ranks of a run
  Duration timeout = std::chrono::minutes(10);
  NetworkOptions network = {};  // between hosts
  // Until all have met; zero: as long as the time-out of a call.
  Duration meeting = Duration(0);
  // For create(): the ranks are members of it, and the loss of one ends the meeting (check()).
  Crew* crew = nullptr;
  // The algorithm between hosts, by name, wherever it fits; empty: as LOCKSTEP_ALGORITHM says, else
  // chosen for each call. The same on all ranks.
  std::string algorithm = {};
  // By which it is chosen. Those of rank 0 count for all; empty: as LOCKSTEP_COSTS says, else
  // as its interface's speed and defaults.
  std::optional<Costs> costs = {};
};

class Communicator {
 public:
  // Returns when all ranks of the group have met (bounded as the options say).
  static Result<std::unique_ptr<Communicator>> create(CommunicatorOptions options,
                                                      Rendezvous& rendezvous);
  // Ends what is pending (with Code::cancelled), says goodbye to the peers and waits, at most two
  // seconds, until they have received what was sent. In a forked child it does nothing.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int size() const;
  // By what this rank reaches other hosts: "tcp over eth1"; empty when all ranks are on this one.
  const std::string& fabric() const;
  // The ranks of each host, ascending; hosts in the order of their lowest rank.
  std::span<const std::vector<int>> hosts() const;
  // What the group has agreed that messages cost.
  const Costs& costs() const;
  // Bytes of data that collectives have sent from this rank to other hosts so far, without headers.
  std::uint64_t wire_bytes() const;

  Pending all_reduce(std::span<std::byte> buffer, DataType type, ReduceOp op,
                     CallMode mode = CallMode::nonblocking);  // in place
  // In place at the root; the others' buffers stay as they are.
  Pending reduce(std::span<std::byte> buffer, DataType type, ReduceOp op, int root,
                 CallMode mode = CallMode::nonblocking);
  // input is size() blocks as large as output; output becomes the reduction of all rank()-th
  // blocks.
  Pending reduce_scatter(std::span<const std::byte> input, std::span<std::byte> output,
                         DataType type, ReduceOp op, CallMode mode = CallMode::nonblocking);
  // output is size() blocks as large as input. input may be its own block of output.
  Pending all_gather(std::span<const std::byte> input, std::span<std::byte> output,
                     CallMode mode = CallMode::nonblocking);
  Pending broadcast(std::span<std::byte> buffer, int root, CallMode mode = CallMode::nonblocking);
  // output: at the root, size() blocks as large as input; empty elsewhere.
  Pending gather(std::span<const std::byte> input, std::span<std::byte> output, int root,
                 CallMode mode = CallMode::nonblocking);
  // input: at the root, size() blocks as large as output; empty elsewhere.
  Pending scatter(std::span<const std::byte> input, std::span<std::byte> output, int root,
                  CallMode mode = CallMode::nonblocking);
  // size() equal blocks each: block r of the input becomes block rank() of rank r's output. The two
  // do not overlap.
  Pending all_to_all(std::span<const std::byte> input, std::span<std::byte> output,
                     CallMode mode = CallMode::nonblocking);
  Pending barrier(CallMode mode = CallMode::nonblocking);
  // Matched by (peer, tag), in order. The sizes must be equal; tag >= 0. A send is done when its
  // buffer may be reused; one of more than 4 KiB only when the peer has matched it.
  Pending send(std::span<const std::byte> buffer, int peer, int tag);
  Pending recv(std::span<std::byte> buffer, int peer, int tag);
  // From whichever rank's send with this tag comes first. That rank is written to `source`, which
  // must live until all is done.
  Pending recv_from_any(std::span<std::byte> buffer, int tag, int& source);

  // Memory for data that is communicated, which every group of this process can use, also when this
  // one is gone. Zeroed, page-aligned.
  Result<Buffer> allocate(Bytes size);

  // Ends all pending and later calls with this error, here and on the other ranks.
  void abort(Error error);

 private:
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
