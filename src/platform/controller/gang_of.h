// gang_of: what an engine gets of an attempt: its program, and the placement of its nodes.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "platform/core/model/state.h"
#include "platform/engine/gang.h"
#include "platform/host/keys.h"

namespace lockstep::controller {

struct GangSetup {
  const host::Keys& keys;
  const std::string& costs;  // of communication, for the ranks; empty: unknown
  // A folder that all hosts share, for checkpoints; empty: they are below the home of each host.
  std::filesystem::path shared{};
  std::map<std::string, std::string> secrets{};  // variables with the values of the run's secrets
};

engine::Gang gang_of(const model::State& state, const model::Attempt& attempt,
                     const GangSetup& setup);

}  // namespace lockstep::controller
