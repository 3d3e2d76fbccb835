// MessageExchange: the environment of an algorithm that executes one collective: ranks, messages to
// and from them, the memory of its host, and waiting. The algorithm itself numbers and checks
// nothing: each message is checked against the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/fabric/link.h"
#include "comm/group/wait_reason.h"

namespace lockstep::comm {

class HostGroup;

class MessageExchange {
 public:
  virtual ~MessageExchange() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // All ranks in an order where ranks of one host are adjacent; the same on all ranks.
  virtual std::span<const int> ring() const = 0;
  // The ranks of each host, ascending; hosts in the order of their lowest rank. The same on all.
  virtual std::span<const std::vector<int>> hosts() const = 0;
  // The ranks of this host, which share memory; null when this rank is alone there.
  virtual HostGroup* host_group() = 0;

  // The size of the pieces for large data; the same on all ranks.
  virtual std::size_t piece_bytes() const = 0;

  // Waits for a free slot for the next message to `peer`, of at most kSlotBytes; then publish()
  // sends it.
  virtual Result<std::byte*> claim(int peer) = 0;
  virtual void publish(int peer, std::size_t piece, std::size_t bytes) = 0;
  // Waits for the next message from `peer`, which must be this piece of this call and have this
  // size. The data is valid until release().
  virtual Result<const std::byte*> receive(int peer, std::size_t piece, std::size_t bytes) = 0;
  virtual void release(int peer) = 0;

  // Waits until `peer` has made ready() true, in memory that both share.
  virtual Result<void> wait_for(int peer, WaitReason what, const std::function<bool()>& ready) = 0;
  // Returns an error that names both calls, unless the peer's call is this one.
  virtual Result<void> check_call(int peer, const MessageHeader& header) const = 0;
};

}  // namespace lockstep::comm
