// Shell completion as scripts of the shells' own, made from the tree of commands.
#pragma once

#include <string>
#include <vector>

#include "apps/cli_tree.h"

namespace lockstep {

// Hidden: `lockstep complete-runs BEGINNING` prints the runs that it may stand for.
inline constexpr auto kCompleteRuns = "complete-runs";
// Likewise: prints the hosts of the map.
inline constexpr auto kCompleteHosts = "complete-hosts";

std::string bash_completion(const std::vector<CommandNode>& commands);
std::string zsh_completion(const std::vector<CommandNode>& commands);
std::string fish_completion(const std::vector<CommandNode>& commands);

}  // namespace lockstep
