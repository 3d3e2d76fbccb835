// The Python modules `wandb` and `horovod` of a run's ranks, in the place of the real ones: they
// are lockstep.wandb (docs/design/python-insight.md) and lockstep.horovod (docs/design/horovod.md).
// They are files in the node's folder, because no one place has the Python package of the ranks on
// every host and in every image.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "platform/host/launch_spec.h"

namespace lockstep::agent {

inline constexpr auto kStandInFolder = "stand-ins";  // in the node's folder

// The run asks for one of them by model::kWandb or model::kHorovod.
bool wants_stand_in(const host::LaunchSpec& launch);
// Writes the modules that the run asks for, and the metadata of their packages, by which trainers
// look for a version.
Result<void> write_stand_ins(const host::LaunchSpec& launch, const std::filesystem::path& folder);

}  // namespace lockstep::agent
