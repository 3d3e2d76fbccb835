// A volume of a container in one word, as users write it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/json.h"

namespace lockstep::k8s {

enum class VolumeKind { claim, host_path, config_map, secret, empty };

struct Volume {
  VolumeKind kind = VolumeKind::empty;
  std::string source;  // the object's name, or the host's path
  std::string path;    // in the container
  bool is_read_only = false;

  friend bool operator==(const Volume&, const Volume&) = default;
};

// pvc:NAME:/PATH, host:/SOURCE:/PATH, config-map:NAME:/PATH, secret:NAME:/PATH or empty:/PATH; each
// may end in :ro.
Result<Volume> parse_volume(std::string_view words);

// An entry of the Pod's `volumes`, and the one of the container's `volumeMounts` that names it.
Json volume_json(const Volume& volume, const std::string& name);
Json mount_json(const Volume& volume, const std::string& name);

}  // namespace lockstep::k8s
