#include "map/discover/offered_gpus.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "base/format.h"

namespace lockstep::map {
namespace {

std::string_view trimmed(std::string_view input) {
  input.remove_prefix(std::min(input.find_first_not_of(" \t"), input.size()));
  return input.substr(0, input.find_last_not_of(" \t") + 1);
}

bool has_number(const NvidiaGpu& gpu, std::string_view entry) {
  int number = -1;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  return error == std::errc() && end == entry.data() + entry.size() && number == gpu.number;
}

// The card that an entry names. A shortened UUID must fit one card only.
const NvidiaGpu* find_card(const std::vector<NvidiaGpu>& all, std::string_view entry) {
  const NvidiaGpu* found = nullptr;
  for (const NvidiaGpu& gpu : all) {
    const bool by_uuid = entry.starts_with("GPU-") && gpu.uuid.starts_with(entry);
    if (!by_uuid && !has_number(gpu, entry)) continue;
    if (found != nullptr) return nullptr;
    found = &gpu;
  }
  return found;
}

std::set<int> visible_numbers(const std::vector<NvidiaGpu>& all, std::string_view list,
                              std::vector<std::string>& warnings) {
  std::set<int> numbers;
  for (std::string_view rest = list; !trimmed(rest).empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view entry = trimmed(rest.substr(0, comma));
    const NvidiaGpu* card = find_card(all, entry);
    if (card == nullptr) {
      if (entry != "NoDevFiles" && entry != "-1")
        warnings.push_back(
            format("CUDA_VISIBLE_DEVICES is '{}', and '{}' names no GPU of this "
                   "machine; as in CUDA, the list ends before it",
                   list, entry));
      break;
    }
    numbers.insert(card->number);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return numbers;
}

std::string mig_warning(const NvidiaGpu& gpu) {
  return format(
      "GPU {} ({}) is in MIG mode and is left out, because a rank needs a whole card; "
      "`nvidia-smi -i {} -mig 0` ends MIG mode, and a restart of the daemon finds the card then",
      gpu.number, gpu.uuid.empty() ? gpu.pci : gpu.uuid,
      gpu.uuid.empty() ? format("{}", gpu.number) : gpu.uuid);
}

}  // namespace

OfferedGpus offered_gpus(const std::vector<NvidiaGpu>& all,
                         const std::optional<std::string>& visible) {
  OfferedGpus offered;
  std::set<int> numbers;
  if (visible) numbers = visible_numbers(all, *visible, offered.warnings);
  for (const NvidiaGpu& gpu : all) {
    if (visible && !numbers.contains(gpu.number)) continue;
    if (gpu.mig)
      offered.warnings.push_back(mig_warning(gpu));
    else
      offered.gpus.push_back(gpu);
  }
  return offered;
}

}  // namespace lockstep::map
