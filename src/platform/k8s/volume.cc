#include "platform/k8s/volume.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/format.h"
#include "platform/k8s/names.h"

namespace lockstep::k8s {
namespace {

struct VolumeWord {
  std::string_view word;
  VolumeKind kind;
};
constexpr std::array<VolumeWord, 5> kVolumeWords = {{{"pvc", VolumeKind::claim},
                                                     {"host", VolumeKind::host_path},
                                                     {"config-map", VolumeKind::config_map},
                                                     {"secret", VolumeKind::secret},
                                                     {"empty", VolumeKind::empty}}};

std::vector<std::string> split_at_colons(std::string_view words) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t colon = words.find(':');
    parts.emplace_back(words.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    words.remove_prefix(colon + 1);
  }
}

Error no_volume(std::string_view words) {
  return Error{Code::invalid,
               format("'{}': write pvc:NAME:/PATH, host:/SOURCE:/PATH, config-map:NAME:/PATH, "
                      "secret:NAME:/PATH or empty:/PATH; :ro at the end makes it read-only",
                      words)};
}

Result<void> check_source(const Volume& volume) {
  if (volume.kind == VolumeKind::empty) return {};
  if (volume.kind == VolumeKind::host_path) return check_path(volume.source);
  return check_object_name(volume.source);
}

}  // namespace

Result<Volume> parse_volume(std::string_view words) {
  std::vector<std::string> parts = split_at_colons(words);
  Volume volume;
  if (parts.size() > 1 && parts.back() == "ro") {
    volume.is_read_only = true;
    parts.pop_back();
  }
  const auto* const found = std::ranges::find(kVolumeWords, parts.front(), &VolumeWord::word);
  if (found == kVolumeWords.end()) return no_volume(words);
  volume.kind = found->kind;
  if (parts.size() != (volume.kind == VolumeKind::empty ? 2 : 3)) return no_volume(words);
  if (volume.kind != VolumeKind::empty) volume.source = parts[1];
  volume.path = parts.back();
  TRY(check_source(volume));
  TRY(check_path(volume.path));
  return volume;
}

Json volume_json(const Volume& volume, const std::string& name) {
  switch (volume.kind) {
    case VolumeKind::claim:
      return {{"name", name}, {"persistentVolumeClaim", {{"claimName", volume.source}}}};
    case VolumeKind::host_path:
      return {{"name", name}, {"hostPath", {{"path", volume.source}}}};
    case VolumeKind::config_map:
      return {{"name", name}, {"configMap", {{"name", volume.source}}}};
    case VolumeKind::secret:
      return {{"name", name}, {"secret", {{"secretName", volume.source}}}};
    case VolumeKind::empty:
      break;
  }
  return {{"name", name}, {"emptyDir", Json::object()}};
}

Json mount_json(const Volume& volume, const std::string& name) {
  Json mount = {{"name", name}, {"mountPath", volume.path}};
  if (volume.is_read_only) mount["readOnly"] = true;
  return mount;
}

}  // namespace lockstep::k8s
