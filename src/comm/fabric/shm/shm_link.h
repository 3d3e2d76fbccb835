// ShmLink: a Link between two ranks of one host, over one segment of shared memory (memfd). The
// segment holds, for each direction and channel, a ring with one writer and one reader: two
// counters and the slots. The counters are atomics with acquire and release (and sequential
// consistency for `sleeping`, below) and no fences, so ThreadSanitizer supports ranks that are
// threads.
//
// Sleeping. A rank that is about to sleep sets its `sleeping` flag and then checks once more for
// messages. A rank that publishes or releases advances the counter and then checks the peer's flag.
// Both are sequentially consistent, so at least one of the two sees the other, and no wake-up is
// lost.
#pragma once

#include <memory>
#include <string>

#include "base/os/fd.h"
#include "base/result.h"
#include "comm/fabric/doorbell.h"
#include "comm/fabric/link.h"

namespace lockstep::comm {

// One pair's memory, mapped; not inherited by forked children.
class ShmLinkSegment {
 public:
  struct Layout;

  static Result<ShmLinkSegment> create(const std::string& token);  // token: 1 to 64 characters
  static Result<ShmLinkSegment> map(const Fd& memfd);              // checks the size
  ShmLinkSegment(ShmLinkSegment&& other) noexcept;
  ShmLinkSegment& operator=(ShmLinkSegment&&) = delete;
  ~ShmLinkSegment();

  // The token that create() wrote: a rank that can read it shares memory with the creator.
  std::string token() const;
  const Fd& memfd() const { return memfd_; }
  void close_memfd() { memfd_.reset(); }  // the mapping remains
  Layout* layout() const { return layout_; }

 private:
  ShmLinkSegment(Fd memfd, Layout* layout) : memfd_(std::move(memfd)), layout_(layout) {}
  Fd memfd_;
  Layout* layout_;
};

enum class ShmSide { creator, opener };

// `doorbell` belongs to the peer.
std::unique_ptr<Link> make_shm_link(ShmLinkSegment segment, ShmSide side, Doorbell doorbell);

}  // namespace lockstep::comm
