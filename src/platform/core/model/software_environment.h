// SoftwareEnvironment: which software a run's ranks find on each host, beside that of the host
// itself: a Python venv, a conda environment, modules, or an image.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/record.h"

namespace lockstep::model {

enum class SoftwareKind { venv, conda, module, image };
constexpr auto enum_names(SoftwareKind) {
  return names<SoftwareKind>({{SoftwareKind::venv, "venv"},
                              {SoftwareKind::conda, "conda"},
                              {SoftwareKind::module, "module"},
                              {SoftwareKind::image, "image"}});
}

enum class ImageRuntime { podman, apptainer };
constexpr auto enum_names(ImageRuntime) {
  return names<ImageRuntime>(
      {{ImageRuntime::podman, "podman"}, {ImageRuntime::apptainer, "apptainer"}});
}

struct SoftwareEnvironment {
  SoftwareKind kind = SoftwareKind::venv;
  std::string name{};                  // the folder, conda's name, or the image; empty for modules
  std::vector<std::string> modules{};  // in the order in which they are loaded
  ImageRuntime runtime = ImageRuntime::podman;  // of an image
  std::vector<std::string>
      mounts{};  // more folders of the host that an image has at the same paths

  bool operator==(const SoftwareEnvironment&) const = default;

  static constexpr auto fields() {
    return record<SoftwareEnvironment>(
        required(field("kind", &SoftwareEnvironment::kind, "venv, conda, module or image")),
        field("name", &SoftwareEnvironment::name, "folder, name or image"),
        field("modules", &SoftwareEnvironment::modules, "modules to load, in order"),
        field("runtime", &SoftwareEnvironment::runtime, "what starts an image"),
        field("mounts", &SoftwareEnvironment::mounts, "folders that an image has, too"));
  }
};

// True if the image is a file or folder of the host, and not a name in the host's image store.
bool is_image_file(std::string_view image);

// For people: "venv /opt/venvs/train", "modules cuda/12.4, openmpi/5", "image train:2 (podman)".
std::string text(const SoftwareEnvironment& environment);

// Checks names and folders; errors begin with the run file's field.
Result<void> check(const SoftwareEnvironment& environment);

}  // namespace lockstep::model
