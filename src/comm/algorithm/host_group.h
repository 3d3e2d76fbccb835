// HostGroup: how the ranks of one host carry out a collective together, in the memory that they
// share (fabric/shm/commons.h).
//
// Each call begins with an entry: every rank says what it calls and either brings its data, if that
// is small, or lends its buffers, and waits until all have entered. So who calls something else is
// found at once, and all see alike whether the buffers of all lie in lent memory.
//
// When may memory be written again? Entries and slots of even and odd calls are apart: a rank
// enters call k + 2 only when all have entered k + 1, and those have read all of k. Lent buffers
// and staging have no such rule: after reading or writing those of others, the ranks meet().
//
// For the thread that carries out the call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/algorithm/spinning.h"
#include "comm/fabric/link.h"
#include "comm/fabric/shm/commons.h"
#include "comm/fabric/shm/host_share.h"
#include "comm/group/wait_for.h"

namespace lockstep {

class HostGroup {
 public:
  // links: to the other ranks of the host, which ring for those that sleep.
  HostGroup(Exchange& exchange, const HostShare& share, std::vector<Link*> links);

  // Whether the next calls run beside a program that computes, whose core they would take by
  // spinning. Otherwise their callers have nothing else to do.
  void set_background(bool background) { background_ = background; }

  // Ranks are named by their place among those of this host, in ascending order.
  std::size_t size() const { return share_.ranks.size(); }
  std::size_t place() const { return place_; }
  int rank(std::size_t place) const { return share_.ranks[place]; }

  // The most that can be brought.
  static constexpr std::size_t kBringBytes = Seat::kSlotBytes;
  // Enters a call with a copy of `data`; every rank of the host may read it until it enters the
  // next call. most: what any rank brings, the same on all.
  Result<void> bring(const Header& call, std::span<const std::byte> data, std::size_t most);
  const std::byte* brought(std::size_t place) const;

  // Enters a call with buffers, of which an unused one is empty. They may be anywhere; input() and
  // output() are null when a peer's is not all in memory that it lends, or is shorter than `bytes`.
  Result<void> lend(const Header& call, std::span<const std::byte> input,
                    std::span<std::byte> output);
  std::byte* input(std::size_t place, std::size_t bytes) const;
  std::byte* output(std::size_t place, std::size_t bytes) const;

  // After lend(): whether what each of the others has just written comes fast to this rank, as out
  // of a last cache that all share. Measured, since nothing else tells where the cores of a virtual
  // machine lie, which moves within seconds. Ranks may see it differently.
  bool near() const;

  // Waits until all have come here.
  Result<void> meet();

  // A piece of shared memory of each rank, written by that rank before a meet() and read by all
  // after it. flip() after the reads: the next piece is another one, and the one after that may be
  // written when all have met again.
  static constexpr std::size_t kStagingBytes = Seat::kStagingBytes;
  std::byte* staging(std::size_t place) const;
  void flip() { ++pieces_; }

 private:
  Seat& seat(std::size_t place) const { return share_.commons.seat(rank(place)); }
  Entry& entry(std::size_t place) const { return seat(place).entries[calls_ % 2]; }
  Result<void> enter(const Header& call);
  template <class Ready>
  Result<void> wait_for(std::size_t place, WaitFor what, Ready ready);
  void nudge_all();
  std::byte* lent(std::size_t place, std::uint64_t offset, std::size_t bytes) const;

  Exchange& exchange_;
  const HostShare& share_;
  const std::size_t place_;
  Spinning spinning_;  // in the foreground
  bool background_ = false;
  const std::vector<Link*> links_;  // to the others
  std::uint64_t calls_ = 0;
  bool brought_inline_ = false;
  std::uint64_t meetings_ = 0;
  std::uint64_t pieces_ = 0;
};

}  // namespace lockstep
