#include "map/discover/nvidia.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <tuple>

#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::map {
namespace {

namespace fs = std::filesystem;

std::optional<int> parse_number(std::string_view input) {
  int number = 0;
  auto [end, error] = std::from_chars(input.data(), input.data() + input.size(), number);
  if (error != std::errc() || end != input.data() + input.size()) return std::nullopt;
  return number;
}

// "3" of "Device Minor: \t 3" in the driver's description of a card; empty if it has no such line.
std::string_view value_in(std::string_view information, std::string_view label) {
  const std::size_t at = information.find(label);
  if (at == information.npos) return "";
  std::string_view rest = information.substr(at + label.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  return rest.substr(0, rest.find_first_of(" \t\n"));
}

// Before the first use of a card the driver shows question marks.
std::string uuid_in(std::string_view information) {
  const std::string_view uuid = value_in(information, "GPU UUID:");
  return uuid.find('?') == uuid.npos ? std::string(uuid) : "";
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  if (const auto paths = list_folder(folder))
    for (const auto& path : *paths) names.push_back(path.filename());
  return names;
}

bool can_open(const fs::path& root, int minor) {
  return ::access((root / "dev" / format("nvidia{}", minor)).c_str(), R_OK | W_OK) == 0;
}

// The folder `mig` exists on each card that supports MIG; its entries gi0, gi1, ... are the slices.
bool has_slices(const fs::path& root, int minor) {
  const auto slices =
      entries(root / "proc/driver/nvidia/capabilities" / format("gpu{}", minor) / "mig");
  return std::ranges::any_of(slices, [](const auto& name) { return name.starts_with("gi"); });
}

std::vector<NvidiaGpu> listed_by_driver(const fs::path& root) {
  std::vector<NvidiaGpu> gpus;
  fs::path list = root / "proc/driver/nvidia/gpus";
  for (const std::string& pci : entries(list)) {
    auto information = read_file(list / pci / "information", 64u << 10);
    if (!information) continue;
    if (auto minor = parse_number(value_in(*information, "Device Minor:")))
      gpus.push_back({.pci = pci, .minor = *minor, .uuid = uuid_in(*information)});
  }
  return gpus;
}

std::vector<NvidiaGpu> device_files(const fs::path& root) {
  std::vector<NvidiaGpu> gpus;
  for (const std::string& name : entries(root / "dev"))
    if (name.starts_with("nvidia"))
      if (auto minor = parse_number(std::string_view(name).substr(6)))
        gpus.push_back({.pci = "", .minor = *minor, .uuid = ""});
  return gpus;
}

}  // namespace

std::vector<NvidiaGpu> usable_nvidia_gpus(const fs::path& root) {
  std::vector<NvidiaGpu> gpus = listed_by_driver(root);
  if (gpus.empty()) gpus = device_files(root);
  std::erase_if(gpus, [&](const NvidiaGpu& gpu) { return !can_open(root, gpu.minor); });
  std::sort(gpus.begin(), gpus.end(), [](const NvidiaGpu& a, const NvidiaGpu& b) {
    return std::tie(a.pci, a.minor) < std::tie(b.pci, b.minor);
  });
  for (NvidiaGpu& gpu : gpus) {
    gpu.number = static_cast<int>(&gpu - gpus.data());
    gpu.mig = has_slices(root, gpu.minor);
  }
  return gpus;
}

}  // namespace lockstep::map
