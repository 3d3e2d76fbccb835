// Exchange: what an algorithm sees while it carries out one collective: ranks, messages to and from
// them, the memory of its host, and waiting. It numbers and checks nothing itself; each message is
// checked against the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/fabric/link.h"
#include "comm/group/wait_for.h"

namespace lockstep {

class HostGroup;

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // All ranks in an order in which those of one host are neighbours; the same on all ranks.
  virtual std::span<const int> ring() const = 0;
  // The ranks of each host, ascending; hosts in the order of their lowest rank. The same on all.
  virtual std::span<const std::vector<int>> hosts() const = 0;
  // The ranks of this host, which share memory; null when this rank is alone there.
  virtual HostGroup* host() = 0;

  // The size of the pieces in which much data should travel; the same on all ranks.
  virtual std::size_t piece_bytes() const = 0;

  // Waits for room for the next message to `peer`, of at most kSlotBytes; then publish() sends it.
  virtual Result<std::byte*> claim(int peer) = 0;
  virtual void publish(int peer, std::size_t piece, std::size_t bytes) = 0;
  // Waits for the next message from `peer`, which must be this piece of this call and have this
  // size. It stays where it is until release().
  virtual Result<const std::byte*> receive(int peer, std::size_t piece, std::size_t bytes) = 0;
  virtual void release(int peer) = 0;

  // Waits until `peer` has made ready() true, in memory that both share.
  virtual Result<void> wait_for(int peer, WaitFor what, const std::function<bool()>& ready) = 0;
  // An error that names both calls unless the peer's is this one.
  virtual Result<void> check_call(int peer, const Header& header) const = 0;
};

}  // namespace lockstep
