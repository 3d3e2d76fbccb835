#include "train/simulated_device/memory.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "train/simulated_device/stream.h"

namespace lockstep::train::simulated_device {
namespace {

constexpr std::size_t kArena = std::size_t{16} << 30;  // of addresses: memory is used when written
constexpr std::size_t kAlignment = 512;

struct Block {
  std::size_t bytes;
  c10::Stream stream;                             // that allocated it
  std::set<c10::StreamId> users = {};             // other streams that were recorded
  std::vector<std::shared_ptr<Event>> uses = {};  // of them, once it is released
};

struct Usage {
  std::int64_t now = 0;
  std::int64_t most = 0;
};

class Arena {
 public:
  Arena() {
    const int file = ::memfd_create("simulated device", MFD_CLOEXEC);
    LS_CHECK(file >= 0 && ::ftruncate(file, kArena) == 0);
    hidden_ = map(file, PROT_NONE);
    open_ = map(file, PROT_READ | PROT_WRITE);
    ::close(file);
  }

  void* allocate(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    const auto size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const auto stream = current_stream(-1);
    const std::lock_guard lock(mutex_);
    count(stream.device_index(), static_cast<std::int64_t>(size));
    return_unused();
    auto& free = free_[{stream.device_index(), stream.id(), size}];
    std::size_t offset = 0;
    if (!free.empty()) {
      offset = free.back();
      free.pop_back();
    } else {
      TORCH_CHECK(used_ + size <= kArena, "the simulated devices are out of memory");
      offset = used_;
      used_ += size;
      poison(offset, size, stream);
    }
    blocks_.insert_or_assign(offset, Block{size, stream});
    return hidden_ + offset;
  }

  void release(void* pointer) {
    if (!pointer) return;
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(offset_of(pointer));
    LS_CHECK(found != blocks_.end(), "a block is released once");
    count(found->second.stream.device_index(), -static_cast<std::int64_t>(found->second.bytes));
    for (const auto user : found->second.users)
      found->second.uses.push_back(
          queue_of(c10::Stream(c10::Stream::UNSAFE, found->second.stream.device(), user)).record());
    if (found->second.uses.empty())
      reuse(found->first, found->second);
    else
      in_use_.emplace_back(found->first, std::move(found->second));
    blocks_.erase(found);
  }

  void record(const void* pointer, c10::Stream stream) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(offset_of(pointer));
    if (found == blocks_.end() || found->second.stream == stream) return;
    found->second.users.insert(stream.id());
  }

  c10::DeviceIndex index_of(const void* pointer) {
    const std::lock_guard lock(mutex_);
    const auto after = blocks_.upper_bound(offset_of(pointer));
    LS_CHECK(after != blocks_.begin(), "the pointer is in a block");
    return std::prev(after)->second.stream.device_index();
  }

  bool has(const void* pointer) const {
    const auto* byte = static_cast<const std::byte*>(pointer);
    return byte >= hidden_ && byte < hidden_ + kArena;
  }

  void* host_address(const void* pointer) const { return open_ + offset_of(pointer); }

  Usage& usage(c10::DeviceIndex device) { return usage_.at(static_cast<std::size_t>(device)); }
  std::mutex& mutex() { return mutex_; }

 private:
  static std::byte* map(int file, int access) {
    void* memory = ::mmap(nullptr, kArena, access, MAP_SHARED | MAP_NORESERVE, file, 0);
    LS_CHECK(memory != MAP_FAILED);
    return static_cast<std::byte*>(memory);
  }
  std::size_t offset_of(const void* pointer) const {
    LS_CHECK(has(pointer), "the pointer is one of a simulated device");
    return static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - hidden_);
  }
  void poison(std::size_t offset, std::size_t bytes, c10::Stream stream) {
    queue_of(stream).push(
        [memory = open_ + offset, bytes] { std::memset(memory, kPoison, bytes); });
  }
  void reuse(std::size_t offset, const Block& block) {
    poison(offset, block.bytes, block.stream);
    free_[{block.stream.device_index(), block.stream.id(), block.bytes}].push_back(offset);
  }
  void return_unused() {
    std::erase_if(in_use_, [&](auto& entry) {
      auto& [offset, block] = entry;
      if (!std::ranges::all_of(block.uses, [](auto& use) { return use->done(); })) return false;
      reuse(offset, block);
      return true;
    });
  }
  void count(c10::DeviceIndex device, std::int64_t bytes) {
    auto& [now, most] = usage(device);
    now += bytes;
    most = std::max(most, now);
  }

  std::byte* hidden_ = nullptr;
  std::byte* open_ = nullptr;
  std::mutex mutex_;  // guards what follows
  std::size_t used_ = 0;
  std::map<std::size_t, Block> blocks_;  // by offset
  std::map<std::tuple<c10::DeviceIndex, c10::StreamId, std::size_t>, std::vector<std::size_t>>
      free_;
  std::vector<std::pair<std::size_t, Block>> in_use_;  // released, but used by other streams
  std::array<Usage, kDevices> usage_;
};

// Never destroyed: tensors may be released while the process ends.
Arena& arena() {
  static auto* one = new Arena;
  return *one;
}

std::pair<std::size_t, std::size_t> memory_info{kArena, kArena};

class DeviceAllocator : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* pointer = arena().allocate(bytes);
    return {pointer, pointer, &release, c10::Device(c10::kPrivateUse1, current_device())};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    queue_of(current_stream(-1))
        .push([to = simulated_device::host_address(to), from = simulated_device::host_address(from),
               count] { std::memcpy(to, from, count); });
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    record_stream(pointer.get(), stream);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0].current = bytes_in_use(device);
    stats.allocated_bytes[0].peak = bytes_in_use_max(device);
    stats.reserved_bytes[0] = stats.allocated_bytes[0];
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex device) override { reset_bytes_in_use_max(device); }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) override {
    return memory_info;
  }

 private:
  static void release(void* pointer) { arena().release(pointer); }
};

struct PinnedBlocks {
  std::mutex mutex;
  std::map<const std::byte*, std::size_t> bytes;
};

PinnedBlocks& pinned_blocks() {
  static auto* all = new PinnedBlocks;
  return *all;
}

class PinnedAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    auto* memory = static_cast<std::byte*>(::operator new(bytes + 1, std::align_val_t(64)));
    const std::lock_guard lock(pinned_blocks().mutex);
    pinned_blocks().bytes.emplace(memory, bytes + 1);
    return {memory, memory, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    std::memcpy(to, from, count);
  }

 private:
  static void release(void* pointer) {
    {
      const std::lock_guard lock(pinned_blocks().mutex);
      pinned_blocks().bytes.erase(static_cast<const std::byte*>(pointer));
    }
    ::operator delete(pointer, std::align_val_t(64));
  }
};

}  // namespace

void* host_address(const void* device_pointer) {
  return device_pointer ? arena().host_address(device_pointer) : nullptr;
}

bool is_device_pointer(const void* pointer) { return arena().has(pointer); }
c10::DeviceIndex index_of(const void* pointer) { return arena().index_of(pointer); }
void record_stream(const void* pointer, c10::Stream stream) { arena().record(pointer, stream); }

std::int64_t bytes_in_use(c10::DeviceIndex device) {
  const std::lock_guard lock(arena().mutex());
  return arena().usage(device).now;
}

std::int64_t bytes_in_use_max(c10::DeviceIndex device) {
  const std::lock_guard lock(arena().mutex());
  return arena().usage(device).most;
}

void reset_bytes_in_use_max(c10::DeviceIndex device) {
  const std::lock_guard lock(arena().mutex());
  auto& [now, most] = arena().usage(device);
  most = now;
}

void set_memory_info(std::size_t free, std::size_t all) { memory_info = {free, all}; }

c10::Allocator& device_allocator() {
  static auto* one = new DeviceAllocator;
  return *one;
}

c10::Allocator& pinned_allocator() {
  static auto* one = new PinnedAllocator;
  return *one;
}

bool is_pinned(const void* pointer) {
  const auto* byte = static_cast<const std::byte*>(pointer);
  const std::lock_guard lock(pinned_blocks().mutex);
  const auto after = pinned_blocks().bytes.upper_bound(byte);
  if (after == pinned_blocks().bytes.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return byte < begin + bytes;
}

}  // namespace lockstep::train::simulated_device
