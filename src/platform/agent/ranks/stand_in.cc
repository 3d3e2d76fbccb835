#include "platform/agent/ranks/stand_in.h"

#include <string>
#include <string_view>

#include "base/os/files.h"
#include "platform/core/model/stand_in.h"

namespace lockstep::agent {
namespace {

constexpr std::string_view kModule = R"python(try:
    from lockstep.wandb import take_place
except ModuleNotFoundError as error:
    raise ImportError(
        "lockstep run --wandb needs the Python package lockstep in the environment of the ranks: "
        f"install its wheel there ({error})"
    ) from None
take_place()
)python";

// The version of wandb whose calls lockstep.wandb has.
constexpr std::string_view kMetadata = "Metadata-Version: 2.1\nName: wandb\nVersion: 0.21.0\n";

}  // namespace

bool wants_stand_in(const host::LaunchSpec& launch) {
  const auto set = launch.env.find(std::string(model::kWandb));
  return set != launch.env.end() && set->second == "1";
}

Result<void> write_stand_in(const std::filesystem::path& folder) {
  const std::filesystem::path metadata = folder / "wandb-0.21.0.dist-info";
  TRY(make_folders(metadata));
  TRY(write_file(folder / "wandb.py", kModule, 0644));
  return write_file(metadata / "METADATA", kMetadata, 0644);
}

}  // namespace lockstep::agent
