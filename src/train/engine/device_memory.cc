#include "train/engine/device_memory.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::train {
namespace {

Bytes main_memory() { return Bytes(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE); }

// The memory limit of the container; nothing if there is none.
std::optional<Bytes> container_limit() {
  const auto content = read_file("/sys/fs/cgroup/memory.max");
  if (!content) return std::nullopt;
  std::int64_t bytes = 0;
  const auto [end, failed] =
      std::from_chars(content->data(), content->data() + content->size(), bytes);
  if (failed != std::errc() || end == content->data()) return std::nullopt;  // "max"
  return Bytes(bytes);
}

// The memory that this process's allocator holds, for tensors or as its reserve. None before the
// first tensor.
Bytes reserved_by(c10::DeviceAllocator& allocator, c10::DeviceIndex device) {
  if (!allocator.initialized()) return 0_B;
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return Bytes(allocator.getDeviceStats(device).reserved_bytes[kAll].current);
}

}  // namespace

Result<Bytes> memory_per_rank(at::Device device, const RankPlacement& placement) {
  if (device.is_cpu())
    return std::min(main_memory(), container_limit().value_or(main_memory())) /
           placement.ranks_per_host_max();
  try {
    auto& allocator = *at::getDeviceAllocator(device.type());
    const auto free = allocator.getMemoryInfo(device.index()).first;
    return Bytes(static_cast<std::int64_t>(free)) + reserved_by(allocator, device.index());
  } catch (const std::exception&) {
    return Error{Code::invalid, format("policy auto: {} does not say how much memory it has: state "
                                       "it, as in auto:80GiB",
                                       device.str())};
  }
}

}  // namespace lockstep::train
