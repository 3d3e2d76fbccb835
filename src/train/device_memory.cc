#include "train/device_memory.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <optional>

#include <ATen/DeviceAccelerator.h>
#include <unistd.h>

#include "base/files.h"
#include "base/format.h"

namespace lockstep {
namespace {

Bytes main_memory() { return Bytes(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE); }

// What a container may use; nothing if that is not limited.
std::optional<Bytes> container_limit() {
  const auto words = read_file("/sys/fs/cgroup/memory.max");
  if (!words) return std::nullopt;
  std::int64_t bytes = 0;
  const auto [end, failed] = std::from_chars(words->data(), words->data() + words->size(), bytes);
  if (failed != std::errc() || end == words->data()) return std::nullopt;  // "max"
  return Bytes(bytes);
}

}  // namespace

Result<Bytes> memory_of(at::Device device, const Places& places) {
  if (device.is_cpu())
    return std::min(main_memory(), container_limit().value_or(main_memory())) /
           places.most_on_a_host();
  try {
    const auto [free, all] = at::accelerator::getMemoryInfo(device.index());
    return Bytes(static_cast<std::int64_t>(all));
  } catch (const std::exception&) {
    return Error{Code::invalid, format("policy auto: {} does not say how much memory it has: state "
                                       "it, as in auto:80GiB",
                                       device.str())};
  }
}

}  // namespace lockstep
