// ShareableMemory: ordinary memory of this process that moves into its shared heap when collectives
// use it, and stays at its address. Then the other ranks of the host access it like a buffer that
// was allocated in the heap.
//
// The owner of the memory, an allocator, adds blocks of whole pages that hold nothing else. When a
// part of a block is the buffer of a second collective, its pages move: they are copied into the
// heap, and the heap is mapped over them. Moving costs as much as two or three collectives that
// copy, so memory that is used once stays. A collective's rules make the move safe: until it is
// done, the program does not write to its buffers. Pages with other bytes than the buffer's stay,
// and the collective copies the data. A block has one moved part, which grows when a buffer
// contains it.
//
// Forks. A child must neither see what the parent writes after the fork nor the reverse. Before a
// fork, each moved part becomes a *snapshot*: a private mapping of the same memory, of which a page
// is copied when it is written. That is one system call, and no write of another thread is lost. In
// the child it stays so. The parent's next collective moves the part again, to new memory of the
// heap while a child may still read the old one (fork_witness.h). A part that a collective uses
// during the fork stays shared in the parent, because others write to it. The child gets a copy of
// it before fork() returns; the parent waits until then.
//
// Failures. After a collective that failed, a late rank may still write to its buffers. So the
// moved part becomes private memory again, and its memory in the heap is not used again.
//
// For all threads. One of these exists in a process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/os/fd.h"
#include "comm/fabric/shm/fork_witness.h"
#include "comm/fabric/shm/shared_heap.h"

namespace lockstep::comm {

class ShareableMemory {
  struct Block;

 public:
  // A buffer of a running collective.
  class Use {
   public:
    // In the heap; nullopt if the buffer is not in it.
    std::optional<std::uint64_t> offset() const { return offset_; }
    // succeeded: no other rank accesses the buffer any more.
    void end(bool succeeded);

   private:
    friend class ShareableMemory;
    std::optional<std::uint64_t> offset_;
    std::shared_ptr<Block> block_;  // shared, because it may be removed before the end
  };

  static ShareableMemory& of_this_process();

  // memory: begins at a page, and the rest of its last page is unused too.
  void add(std::span<std::byte> memory);
  // Call it before the memory is freed; its contents are lost. False if it must not be freed,
  // because the system refuses to make it private again.
  bool remove(const std::byte* memory);

  bool contains(const std::byte* memory);  // as it was added
  bool in_use(const std::byte* memory);    // by a collective

  // Moves the pages of the buffer into the heap, if they may move, a collective used them before,
  // and memory suffices. Call end() after the collective.
  Use use(const std::shared_ptr<SharedHeap>& heap, std::span<const std::byte> buffer);

  ShareableMemory(const ShareableMemory&) = delete;
  ShareableMemory& operator=(const ShareableMemory&) = delete;

 private:
  // Memory of the heap, as large as a block; none: the block has none, or its parent's.
  struct HeapMemory {
    std::shared_ptr<SharedHeap> heap = {};  // of the process
    std::span<std::byte> memory = {};
    // One for each fork whose children see it; shared by all memory that they see.
    std::vector<std::shared_ptr<ForkWitness>> witnesses = {};
  };
  struct PageRange {
    std::size_t begin = 0, end = 0;  // bytes from the block's begin
    bool empty() const { return begin == end; }
    bool contains(const PageRange& other) const {
      return other.empty() || (begin <= other.begin && other.end <= end);
    }
  };
  struct Block {
    std::span<std::byte> memory;  // whole pages
    std::size_t used = 0;         // bytes of them, from the begin
    bool communicated = false;    // by an earlier collective
    PageRange moved = {};         // the shared part
    HeapMemory moved_to = {};
    PageRange snapshot = {};  // the part that was shared before a fork
    HeapMemory snapshot_of = {};
    int uses = 0;
    bool failed = false;   // a use, so that others may still write
    bool removed = false;  // before the last use ended
    // Both parts, and what is between them.
    std::span<std::byte> mapped() const;
    std::span<std::byte> pages(const PageRange& range) const {
      return memory.subspan(range.begin, range.end - range.begin);
    }
  };

  ShareableMemory() = default;
  std::shared_ptr<Block> find(std::span<const std::byte> buffer) LS_REQUIRES(mutex_);
  void share(Block& block, const std::shared_ptr<SharedHeap>& heap, const PageRange& wanted)
      LS_REQUIRES(mutex_);
  bool find_room(Block& block, const std::shared_ptr<SharedHeap>& heap) LS_REQUIRES(mutex_);
  void end_use(Block& block, bool succeeded) LS_REQUIRES(mutex_);
  void drop_moved(Block& block) LS_REQUIRES(mutex_);
  void release(HeapMemory memory) LS_REQUIRES(mutex_);
  void free_unseen_memory() LS_REQUIRES(mutex_);
  // By a forked child that still runs.
  static bool is_seen(HeapMemory& memory);

  // shareable_fork.cc
  static void follow_forks();
  void before_fork() LS_REQUIRES(mutex_);
  void after_fork_in_parent() LS_REQUIRES(mutex_);
  void after_fork_in_child() LS_REQUIRES(mutex_);
  bool map_witness() LS_REQUIRES(mutex_);
  bool make_snapshot(Block& block) LS_REQUIRES(mutex_);

  Mutex mutex_;  // guards what follows; held during a fork
  std::map<const std::byte*, std::shared_ptr<Block>> blocks_ LS_GUARDED_BY(mutex_);
  std::list<HeapMemory> retired_ LS_GUARDED_BY(mutex_);  // that children may still read
  // For the forks since a part was moved.
  std::shared_ptr<ForkWitness> witness_ LS_GUARDED_BY(mutex_);
  // During a fork: the parts that the child copies, and a pipe that ends when it has.
  std::vector<std::shared_ptr<Block>> copied_by_child_ LS_GUARDED_BY(mutex_);
  Fd child_has_copied_ LS_GUARDED_BY(mutex_);  // the parent's end of a pipe
  Fd child_copies_ LS_GUARDED_BY(mutex_);      // the child's end
};

}  // namespace lockstep::comm
