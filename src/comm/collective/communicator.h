// Communicator: one group of ranks that exchange data.
//
// Every call returns an OperationFuture at once. Its buffers must stay valid and unchanged until
// the operation is done. With CallMode::blocking the call returns when it is done, which is the
// fastest way for a caller that would wait at once. Collectives run one after the other in the
// order of submission, which must be the same on all ranks of the group; send and recv run beside
// them. A call with bad arguments (bytes that are no multiple of the type, a root out of range, the
// average of integers) fails in its OperationFuture. It sends nothing, and the communicator stays
// usable.
//
// Any other failure ends the communicator: a lost connection to a peer, a peer that is silent for
// the time-out, calls that do not match between ranks, abort(). The first cause is kept. Every
// pending and every later call fails with it, and so do those of the other ranks. Except for
// abort(), all ranks report the same: the rank at fault, the position of each rank, and the late
// rank. A message names a rank by its global rank. A lost connection and a time-out are reported as
// a GroupFault before any call ends with them.
//
// The result of a reduction is bitwise equal on all ranks and from run to run (same ranks, same
// hosts, same sizes). 16-bit floats are added in 32 bits; they are rounded once within a host, and
// after each rank between hosts.
//
// Buffers from allocate() are in memory that the ranks of a host share: with them, collectives
// within a host copy nothing. Other buffers are copied on the way.
//
// In a forked child every call is refused: the group belongs to its parent.
//
// Limits: at most 256 sends to one peer that it has not matched with a recv are in flight; further
// sends are queued. At most 65,536 sends and receives may be in flight or queued. A further one is
// refused (Code::exhausted), as is the 1,048,577th collective. Safe to call from several threads,
// but collectives submitted from several threads have no defined order.
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
#include "comm/collective/operation_future.h"
#include "comm/cost/costs.h"
#include "comm/fabric/address/network_options.h"
#include "comm/fabric/endpoint/overlay.h"
#include "comm/group/group_ranks.h"
#include "comm/reduction/types.h"
#include "comm/rendezvous/rendezvous.h"
#include "net/crypto.h"

namespace lockstep::comm {

class Membership;

struct CommunicatorOptions {
  int rank = 0;
  int size = 1;
  std::string host_id = {};     // ranks with equal ids may share memory, others never do
  net::Secret secret;           // of this attempt; every connection proves it
  std::string group = "world";  // a key space in the rendezvous; a new name for each new group
  GroupRanks members = {};      // for messages; empty: all ranks of a run
  Duration timeout = std::chrono::minutes(10);
  NetworkOptions network = {};  // between hosts
  // The bound until all ranks are connected; zero: the time-out of a call.
  Duration rendezvous_timeout = Duration(0);
  // For create(): the ranks are its members, and the loss of a member ends connecting (check()).
  Membership* membership = nullptr;
  // The algorithm between hosts, by name, wherever it fits. Empty: that of LOCKSTEP_ALGORITHM, else
  // chosen for each call. The same on all ranks.
  std::string algorithm = {};
  // The costs for the choice. Rank 0's apply to all ranks. Empty: those of LOCKSTEP_COSTS, else
  // from the speed of its interface and defaults.
  std::optional<Costs> costs = {};
  // Larger groups connect their ranks on demand. The same on all ranks; for tests.
  int full_mesh_ranks = kFullMeshRanks;
};

class Communicator {
 public:
  // Returns when all ranks of the group are connected (bounded by the options).
  static Result<std::unique_ptr<Communicator>> create(CommunicatorOptions options,
                                                      Rendezvous& rendezvous);
  // Ends pending operations with Code::cancelled, tells the peers that it leaves, and waits at most
  // two seconds until they have received all sent data. In a forked child it does nothing.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int size() const;
  // The network from this rank to other hosts: "tcp over eth1"; empty when all ranks are on this
  // host.
  const std::string& fabric() const;
  // The ranks of each host, ascending; hosts in the order of their lowest rank.
  std::span<const std::vector<int>> hosts() const;
  // The message costs that the group has agreed on.
  const Costs& costs() const;
  // Bytes of data that collectives have sent from this rank to other hosts so far, without headers.
  std::uint64_t wire_bytes() const;

  OperationFuture all_reduce(std::span<std::byte> buffer, DataType type, ReduceOp op,
                             CallMode mode = CallMode::nonblocking);  // in place
  // In place at the root; the others' buffers stay as they are.
  OperationFuture reduce(std::span<std::byte> buffer, DataType type, ReduceOp op, int root,
                         CallMode mode = CallMode::nonblocking);
  // input is size() blocks of the size of output; output becomes the reduction of all rank()-th
  // blocks.
  OperationFuture reduce_scatter(std::span<const std::byte> input, std::span<std::byte> output,
                                 DataType type, ReduceOp op, CallMode mode = CallMode::nonblocking);
  // output is size() blocks of the size of input. input may be its own block of output.
  OperationFuture all_gather(std::span<const std::byte> input, std::span<std::byte> output,
                             CallMode mode = CallMode::nonblocking);
  OperationFuture broadcast(std::span<std::byte> buffer, int root,
                            CallMode mode = CallMode::nonblocking);
  // output: at the root, size() blocks of the size of input; empty elsewhere.
  OperationFuture gather(std::span<const std::byte> input, std::span<std::byte> output, int root,
                         CallMode mode = CallMode::nonblocking);
  // input: at the root, size() blocks of the size of output; empty elsewhere.
  OperationFuture scatter(std::span<const std::byte> input, std::span<std::byte> output, int root,
                          CallMode mode = CallMode::nonblocking);
  // size() equal blocks each: block r of the input becomes block rank() of rank r's output. The two
  // do not overlap.
  OperationFuture all_to_all(std::span<const std::byte> input, std::span<std::byte> output,
                             CallMode mode = CallMode::nonblocking);
  OperationFuture barrier(CallMode mode = CallMode::nonblocking);
  // Matched by (peer, tag), in order. The sizes must be equal; tag >= 0. A send is done when its
  // buffer may be reused. A send of more than 4 KiB is done only after the peer has matched it.
  OperationFuture send(std::span<const std::byte> buffer, int peer, int tag);
  OperationFuture recv(std::span<std::byte> buffer, int peer, int tag);
  // Receives from the rank whose send with this tag arrives first. That rank is written to
  // `source`, which must stay valid until the operation is done.
  OperationFuture recv_from_any(std::span<std::byte> buffer, int tag, int& source);

  // Allocates memory for communication, which every group of this process can use, also after this
  // one is destroyed. Zeroed, page-aligned.
  Result<Buffer> allocate(Bytes size);

  // Ends all pending and later calls with this error, here and on the other ranks.
  void abort(Error error);
  // The time-out of later calls, and of running ones that do not wait for a peer yet.
  void set_timeout(Duration timeout);
  // Done when the communicator has ended, with the cause: by a failure, abort() or its destruction.
  // This may take until the end of the program, so wait() is not bounded.
  OperationFuture end() const;

 private:
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::comm
