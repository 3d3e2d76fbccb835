#include "train/engine/device_memory.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <optional>

#include <ATen/DeviceAccelerator.h>
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

}  // namespace

Result<Bytes> memory_per_rank(at::Device device, const RankPlacement& placement) {
  if (device.is_cpu())
    return std::min(main_memory(), container_limit().value_or(main_memory())) /
           placement.ranks_per_host_max();
  try {
    const auto [free, all] = at::accelerator::getMemoryInfo(device.index());
    return Bytes(static_cast<std::int64_t>(all));
  } catch (const std::exception&) {
    return Error{Code::invalid, format("policy auto: {} does not say how much memory it has: state "
                                       "it, as in auto:80GiB",
                                       device.str())};
  }
}

}  // namespace lockstep::train
