#include "platform/core/model/software_environment.h"

#include "base/format.h"
#include "base/utf8.h"

namespace lockstep::model {
namespace {

constexpr std::size_t kSoftwareNameMax = 4096;
constexpr std::size_t kModulesMax = 100;
constexpr std::size_t kMountsMax = 100;

Error refused(std::string message) { return {Code::invalid, std::move(message)}; }

// A name that begins with '-' would be an option of the tool that gets it.
Result<void> check_software_name(std::string_view field, std::string_view name) {
  if (name.empty()) return refused(format("{}: is empty; name one, or leave it out", field));
  if (name.starts_with('-') || !is_printable(name) || name.size() > kSoftwareNameMax)
    return refused(
        format("{}: '{}' is not a name: it must be one line of at most {} bytes, and not begin "
               "with '-'",
               field, escape_controls(name), kSoftwareNameMax));
  return {};
}

Result<void> check_software_folder(std::string_view field, std::string_view path) {
  TRY(check_software_name(field, path));
  if (path.starts_with('/')) return {};
  return refused(format("{}: must be an absolute path, got '{}'", field, path));
}

Result<void> check_modules(const std::vector<std::string>& modules) {
  if (modules.empty() || modules.size() > kModulesMax)
    return refused(
        format("module: must name 1 to {} modules, got {}", kModulesMax, modules.size()));
  for (const std::string& module : modules) TRY(check_software_name("module", module));
  return {};
}

Result<void> check_image(const SoftwareEnvironment& environment) {
  TRY(check_software_name("image", environment.name));
  if (environment.runtime == ImageRuntime::apptainer) {
    if (!environment.name.starts_with('/'))
      return refused(
          format("image: Apptainer starts a file or folder of the host, got '{}'; name it by its "
                 "path, such as /images/train.sif",
                 environment.name));
  } else if (is_image_file(environment.name)) {
    return refused(
        format("image: Podman starts an image of its own store, got the path '{}'; name one, such "
               "as localhost/train:2, or write `runtime: apptainer`",
               environment.name));
  }
  if (environment.mounts.size() > kMountsMax)
    return refused(format("mounts: must name at most {} folders, got {}", kMountsMax,
                          environment.mounts.size()));
  for (const std::string& folder : environment.mounts) TRY(check_software_folder("mounts", folder));
  return {};
}

}  // namespace

bool is_image_file(std::string_view image) {
  return image.starts_with('/') || image.starts_with('.') || image.ends_with(".sif");
}

std::string text(const SoftwareEnvironment& environment) {
  if (environment.kind == SoftwareKind::module)
    return format("modules {}", joined(environment.modules, ", "));
  const auto named =
      format("{} {}", lockstep::name_of(environment.kind), escape_controls(environment.name));
  return environment.kind == SoftwareKind::image
             ? format("{} ({})", named, lockstep::name_of(environment.runtime))
             : named;
}

Result<void> check(const SoftwareEnvironment& environment) {
  switch (environment.kind) {
    case SoftwareKind::venv:
      return check_software_folder("venv", environment.name);
    case SoftwareKind::conda:
      // A folder is a path with '/'; a name has none.
      return environment.name.find('/') == std::string::npos
                 ? check_software_name("conda", environment.name)
                 : check_software_folder("conda", environment.name);
    case SoftwareKind::module:
      return check_modules(environment.modules);
    case SoftwareKind::image:
      return check_image(environment);
  }
  return {};
}

}  // namespace lockstep::model
