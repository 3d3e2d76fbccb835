// Keeps memory that was moved into the heap apart in parent and child when the process forks.
#include <chrono>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "comm/fabric/shm/remap.h"
#include "comm/fabric/shm/shareable_memory.h"

namespace lockstep::comm {
namespace {

// A copy of a GiB takes half a second.
constexpr auto kCopyBound = std::chrono::seconds(30);

// The pipe ends too if there is no child, or if it dies.
void wait_for_end(const Fd& pipe) {
  pollfd ended{pipe.get(), POLLIN, 0};
  for (const auto bound = Deadline::after(kCopyBound); !bound.passed();) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(bound.remaining());
    if (::poll(&ended, 1, static_cast<int>(left.count())) >= 0) return;
  }
}

}  // namespace

void ShareableMemory::follow_forks() {
  const auto before = []() LS_THREAD_ANNOTATION(no_thread_safety_analysis) {
    auto& all = of_this_process();
    all.mutex_.lock();
    all.before_fork();
  };
  const auto in_parent = []() LS_THREAD_ANNOTATION(no_thread_safety_analysis) {
    auto& all = of_this_process();
    all.after_fork_in_parent();
    all.mutex_.unlock();
  };
  const auto in_child = []() LS_THREAD_ANNOTATION(no_thread_safety_analysis) {
    auto& all = of_this_process();
    all.after_fork_in_child();
    all.mutex_.unlock();
  };
  LS_CHECK(::pthread_atfork(before, in_parent, in_child) == 0);
}

void ShareableMemory::before_fork() {
  for (const auto& [address, block] : blocks_)
    if (!block->mapped().empty() && !make_snapshot(*block)) copied_by_child_.push_back(block);
  if (int ends[2]; !copied_by_child_.empty() && ::pipe2(ends, O_CLOEXEC) == 0) {
    child_has_copied_ = Fd(ends[0]);
    child_copies_ = Fd(ends[1]);
  }
}

// False if the child must copy it: it is in use, or the system refuses.
bool ShareableMemory::make_snapshot(Block& block) {
  const bool is_snapshot = block.moved.empty() && block.moved_to.memory.empty();
  const bool is_inherited = is_snapshot && block.snapshot_of.memory.empty();
  if (is_inherited) return true;
  if (block.uses > 0 || (!is_snapshot && !block.snapshot.empty()) || !map_witness()) return false;
  if (!is_snapshot) {
    const auto& [heap, memory, witnesses] = block.moved_to;
    const auto offset = heap->offset_of(memory.data(), memory.size());
    if (!offset || !map_over(block.pages(block.moved), heap->memfd(), *offset + block.moved.begin,
                             Sharing::snapshot))
      return false;
    block.snapshot = std::exchange(block.moved, {});
    block.snapshot_of = std::exchange(block.moved_to, {});
  }
  auto& witnesses = block.snapshot_of.witnesses;
  if (witnesses.empty() || witnesses.back() != witness_) witnesses.push_back(witness_);
  return true;
}

bool ShareableMemory::map_witness() {
  if (witness_ && witness_->is_mapped()) return true;
  if (!witness_ || witness_->children_are_gone()) witness_ = ForkWitness::create();
  return witness_ && witness_->map();
}

void ShareableMemory::after_fork_in_parent() {
  if (witness_) witness_->unmap();
  child_copies_.reset();
  if (child_has_copied_) wait_for_end(child_has_copied_);
  child_has_copied_.reset();
  copied_by_child_.clear();
}

void ShareableMemory::after_fork_in_child() {
  child_has_copied_.reset();
  for (const auto& block : copied_by_child_) {
    LS_CHECK(copy_to_private(block->mapped()));
    block->snapshot = {};
  }
  child_copies_.reset();
  copied_by_child_.clear();
  retired_.clear();
  witness_ = nullptr;
  for (const auto& [address, block] : blocks_) {
    block->moved = {};
    block->moved_to = {};
    block->snapshot_of = {};
    block->uses = 0;
    block->failed = false;
  }
}

}  // namespace lockstep::comm
