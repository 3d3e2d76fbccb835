#include "map/discover/gpu_faults.h"

#include <cstddef>

#include "base/format.h"
#include "base/os/files.h"
#include "map/discover/nvidia.h"
#include "map/discover/nvml.h"

namespace lockstep::map {
namespace {

std::string name_of(const NvidiaGpu& card) {
  return card.uuid.empty() ? format("GPU {}", card.number)
                           : format("GPU {} ({})", card.number, card.uuid);
}

}  // namespace

std::vector<std::string> gpu_faults(const GpuSources& sources) {
  const auto cards = usable_nvidia_gpus(sources.root);
  if (cards.empty()) return {};  // without loading NVML
  std::vector<std::string> pci;
  for (const NvidiaGpu& card : cards) pci.push_back(card.pci);
  const auto described = query_nvml(pci, sources.nvml);
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    if (described[i].lost)
      faults.push_back(format("{} is lost from the PCI bus: reboot the host", name_of(cards[i])));
    if (described[i].uncorrected_errors.value_or(0) > 0)
      faults.push_back(
          format("{} has {} memory errors that were not corrected: reset it with "
                 "`nvidia-smi --gpu-reset`, or replace it",
                 name_of(cards[i]), *described[i].uncorrected_errors));
  }
  return faults;
}

std::optional<std::string> nvidia_driver_version(const std::filesystem::path& root) {
  auto version = read_file(root / "sys/module/nvidia/version", 256);
  if (!version) return std::nullopt;
  return version->substr(0, version->find('\n'));
}

}  // namespace lockstep::map
