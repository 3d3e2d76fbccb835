#include "platform/agent/external/visible_gpus.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "base/os/processes.h"

namespace lockstep::agent {
namespace {

constexpr int kGpuNumberMax = 1023;

bool add_gpu(std::string_view word, std::vector<telemetry::GpuOfRun>& gpus) {
  telemetry::GpuOfRun gpu;
  const char* const end = word.data() + word.size();
  const auto [stop, failed] = std::from_chars(word.data(), end, gpu.number);
  const bool is_number = failed == std::errc() && stop == end && gpu.number >= 0;
  if (!is_number && !word.starts_with("GPU-") && !word.starts_with("MIG-")) return false;
  if (gpu.number > kGpuNumberMax) return false;
  if (!is_number) {
    gpu.uuid = word;
    gpu.number = 0;
    for (const auto& other : gpus) {
      if (other.uuid == gpu.uuid) return true;
      gpu.number = std::max(gpu.number, other.number + 1);
    }
  }
  if (std::ranges::find(gpus, gpu) == gpus.end()) gpus.push_back(std::move(gpu));
  return true;
}

}  // namespace

void add_named_gpus(std::string_view value, std::vector<telemetry::GpuOfRun>& gpus) {
  while (!value.empty()) {
    const std::size_t end = std::min(value.find(','), value.size());
    if (!add_gpu(value.substr(0, end), gpus)) return;
    value.remove_prefix(std::min(end + 1, value.size()));
  }
}

void add_visible_gpus(pid_t process, std::vector<telemetry::GpuOfRun>& gpus) {
  if (const auto value = environment_variable_of(process, "CUDA_VISIBLE_DEVICES"))
    add_named_gpus(*value, gpus);
}

}  // namespace lockstep::agent
