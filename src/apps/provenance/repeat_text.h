// The commands that repeat a run.
#pragma once

#include <string>

#include "platform/api/artifact_messages.h"
#include "platform/api/messages.h"

namespace lockstep::cli {

// The artifacts of a run that its submission and its rank 0 add.
inline constexpr auto kCodeDiff = "lockstep/code.diff";
inline constexpr auto kEnvironment = "lockstep/environment.json";
inline constexpr auto kRequirements = "lockstep/requirements.txt";

// `artifacts`: those in the folder `lockstep` of the run.
std::string repeat_text(const api::RunView& run, const api::ArtifactList& artifacts);

}  // namespace lockstep::cli
