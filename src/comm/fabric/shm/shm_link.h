// ShmLink: a Link between two ranks of one host, over one segment of shared memory (memfd). The
// segment holds, for each direction and lane, a ring with one writer and one reader: two counters
// and the slots. The counters are atomics used with acquire and release (and sequential consistency
// against `sleeping`, below), no fences, so ThreadSanitizer sees ranks that are threads.
//
// Sleeping. Who is about to sleep sets its `sleeping` flag and then looks once more for messages;
// who publishes or releases advances the counter and then looks at the peer's flag. Both are
// sequentially consistent, so at least one of the two sees the other, and no wake-up is lost.
#pragma once

#include <memory>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "comm/fabric/doorbell.h"
#include "comm/fabric/link.h"

namespace lockstep {

// One pair's memory, mapped; not inherited by forked children.
class ShmSegment {
 public:
  struct Layout;

  static Result<ShmSegment> create(const std::string& token);  // token: 1 to 64 characters
  static Result<ShmSegment> map(const Fd& memfd);              // checks the size
  ShmSegment(ShmSegment&& other) noexcept;
  ShmSegment& operator=(ShmSegment&&) = delete;
  ~ShmSegment();

  // What create() wrote there: who can read it shares memory with the creator.
  std::string token() const;
  const Fd& memfd() const { return memfd_; }
  void close_memfd() { memfd_.reset(); }  // the mapping stays
  Layout* layout() const { return layout_; }

 private:
  ShmSegment(Fd memfd, Layout* layout) : memfd_(std::move(memfd)), layout_(layout) {}
  Fd memfd_;
  Layout* layout_;
};

enum class ShmSide { creator, guest };

// `bell` is the peer's.
std::unique_ptr<Link> make_shm_link(ShmSegment segment, ShmSide side, Doorbell bell);

}  // namespace lockstep
