#include "comm/fabric/shm/shareable_memory.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include <sys/types.h>
#include <unistd.h>

#include "base/units.h"
#include "comm/fabric/shm/remap.h"

namespace lockstep::comm {
namespace {

// The memory that exists twice while a part moves.
constexpr std::size_t kMovedAtOnce = std::size_t{4} << 20;

// Written to the file: its pages are neither zeroed first nor mapped where the heap is.
bool write_all(const Fd& memfd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const auto written =
        ::pwrite(memfd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return true;
}

bool move_pages(std::span<std::byte> pages, std::span<std::byte> into, const SharedHeap& heap) {
  const auto offset = heap.offset_of(into.data(), into.size());
  return offset && write_all(heap.memfd(), pages, *offset) &&
         map_over(pages, heap.memfd(), *offset, Sharing::shared);
}

}  // namespace

ShareableMemory& ShareableMemory::of_this_process() {
  static auto* const all = [] {
    follow_forks();
    return new ShareableMemory;  // never destroyed: tensors may outlive main
  }();
  return *all;
}

void ShareableMemory::add(std::span<std::byte> memory) {
  auto block = std::make_shared<Block>(
      Block{.memory = {memory.data(), pages_up(memory.size())}, .used = memory.size()});
  Lock lock(mutex_);
  blocks_.insert_or_assign(memory.data(), std::move(block));
}

bool ShareableMemory::remove(const std::byte* memory) {
  Lock lock(mutex_);
  const auto found = blocks_.find(memory);
  if (found == blocks_.end()) return true;
  const auto block = std::move(found->second);
  blocks_.erase(found);
  block->removed = true;
  if (const auto pages = block->mapped(); !pages.empty() && !map_fresh_over(pages)) return false;
  release(std::move(block->snapshot_of));
  if (block->uses == 0) drop_moved(*block);
  return true;
}

bool ShareableMemory::contains(const std::byte* memory) {
  Lock lock(mutex_);
  return blocks_.contains(memory);
}

bool ShareableMemory::in_use(const std::byte* memory) {
  Lock lock(mutex_);
  const auto found = blocks_.find(memory);
  return found != blocks_.end() && found->second->uses > 0;
}

std::span<std::byte> ShareableMemory::Block::mapped() const {
  if (snapshot.empty()) return pages(moved);
  if (moved.empty()) return pages(snapshot);
  return pages({std::min(moved.begin, snapshot.begin), std::max(moved.end, snapshot.end)});
}

std::shared_ptr<ShareableMemory::Block> ShareableMemory::find(std::span<const std::byte> buffer) {
  const auto after = blocks_.upper_bound(buffer.data());
  if (after == blocks_.begin()) return nullptr;
  const auto& block = std::prev(after)->second;
  const auto* const end = block->memory.data() + block->memory.size();
  return buffer.data() + buffer.size() <= end ? block : nullptr;
}

ShareableMemory::Use ShareableMemory::use(const std::shared_ptr<SharedHeap>& heap,
                                          std::span<const std::byte> buffer) {
  Use use;
  if (buffer.empty()) return use;
  Lock lock(mutex_);
  use.block_ = find(buffer);
  if (!use.block_) return use;
  auto& block = *use.block_;
  const auto begin = static_cast<std::size_t>(buffer.data() - block.memory.data());
  const auto end = begin + buffer.size();
  const PageRange wanted{begin / kPageBytes * kPageBytes, pages_up(end)};
  const bool fills_pages = begin == wanted.begin && (end == wanted.end || end == block.used);
  if (!block.moved.contains(wanted) && block.communicated && fills_pages)
    share(block, heap, wanted);
  if (!block.moved.contains(wanted) || block.moved_to.heap != heap) return use;
  ++block.uses;
  use.offset_ = *heap->offset_of(block.moved_to.memory.data(), 0) + begin;
  return use;
}

void ShareableMemory::share(Block& block, const std::shared_ptr<SharedHeap>& heap,
                            const PageRange& wanted) {
  if (!wanted.contains(block.moved) || !wanted.contains(block.snapshot)) return;
  if (!find_room(block, heap)) return;
  witness_ = nullptr;  // its children do not see what moves now
  auto& moved = block.moved;
  if (moved.empty()) moved = {wanted.begin, wanted.begin};
  const auto move = [&](std::size_t begin, std::size_t end) {
    return move_pages(block.pages({begin, end}), block.moved_to.memory.subspan(begin, end - begin),
                      *heap);
  };
  while (moved.end < wanted.end) {
    const auto end = std::min(wanted.end, moved.end + kMovedAtOnce);
    if (!move(moved.end, end)) return;
    moved.end = end;
  }
  while (moved.begin > wanted.begin) {
    const auto begin = std::max(wanted.begin + kMovedAtOnce, moved.begin) - kMovedAtOnce;
    if (!move(begin, moved.begin)) return;
    moved.begin = begin;
  }
  block.snapshot = {};
  release(std::exchange(block.snapshot_of, {}));
}

bool ShareableMemory::find_room(Block& block, const std::shared_ptr<SharedHeap>& heap) {
  if (!block.moved_to.memory.empty()) return block.moved_to.heap == heap;
  free_unseen_memory();
  auto& old = block.snapshot_of;
  if (old.heap == heap && !is_seen(old)) {
    block.moved_to = std::exchange(old, {});
    return true;
  }
  const auto room = heap->allocate(Bytes(static_cast<std::int64_t>(block.memory.size())));
  if (room) block.moved_to = {heap, *room, {}};
  return room.has_value();
}

void ShareableMemory::Use::end(bool succeeded) {
  const auto block = std::exchange(block_, nullptr);
  const bool moved = std::exchange(offset_, std::nullopt).has_value();
  if (!block) return;
  auto& all = of_this_process();
  Lock lock(all.mutex_);
  block->communicated = true;
  if (moved) all.end_use(*block, succeeded);
}

void ShareableMemory::end_use(Block& block, bool succeeded) {
  block.failed |= !succeeded;
  if (--block.uses > 0) return;
  if (block.removed || (block.failed && copy_to_private(block.pages(block.moved))))
    drop_moved(block);
}

void ShareableMemory::drop_moved(Block& block) {
  auto memory = std::exchange(block.moved_to, {});
  block.moved = {};
  if (!std::exchange(block.failed, false))
    release(std::move(memory));
  else if (memory.heap)
    memory.heap->discard(memory.memory);
}

void ShareableMemory::release(HeapMemory memory) {
  if (!memory.memory.empty()) retired_.push_back(std::move(memory));
  free_unseen_memory();
}

void ShareableMemory::free_unseen_memory() {
  std::erase_if(retired_, [&](HeapMemory& memory) {
    if (is_seen(memory)) return false;
    memory.heap->free(memory.memory);
    return true;
  });
}

bool ShareableMemory::is_seen(HeapMemory& memory) {
  std::erase_if(memory.witnesses, [](const auto& each) { return each->children_are_gone(); });
  return !memory.witnesses.empty();
}

}  // namespace lockstep::comm
