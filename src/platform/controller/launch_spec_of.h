// launch_spec_of: the data with which the agent of a node is launched.
#pragma once

#include <filesystem>
#include <string>

#include "platform/core/model/state.h"
#include "platform/engine/launch_spec.h"
#include "platform/host/keys.h"

namespace lockstep::controller {

struct LaunchSetup {
  const host::Keys& keys;
  const std::filesystem::path& home;        // the daemon's folder
  std::filesystem::path checkpoint_folder;  // of the run
  const std::string& costs;                 // of communication, for the ranks; empty: unknown
};

engine::LaunchSpec launch_spec_of(const model::State& state, const model::Node& node,
                                  const LaunchSetup& setup);

}  // namespace lockstep::controller
