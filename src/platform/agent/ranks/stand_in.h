// The Python module `wandb` of a run's ranks, in the place of the real one: it is lockstep.wandb
// (docs/design/python-insight.md). It is a file in the node's folder, because no one place has the
// Python package of the ranks on every host and in every image.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "platform/host/launch_spec.h"

namespace lockstep::agent {

inline constexpr auto kStandInFolder = "stand-ins";  // in the node's folder

// The run asks for it by model::kWandb.
bool wants_stand_in(const host::LaunchSpec& launch);
// Writes the module and the metadata of its package, by which trainers look for a version.
Result<void> write_stand_in(const std::filesystem::path& folder);

}  // namespace lockstep::agent
