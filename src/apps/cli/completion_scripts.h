// Shell completion as scripts for each shell, made from the tree of commands.
#pragma once

#include <string>
#include <vector>

#include "apps/cli/cli_tree.h"

namespace lockstep::cli {

// Hidden: `lockstep complete-runs BEGINNING` prints the runs that begin so.
inline constexpr auto kCompleteRuns = "complete-runs";
// Hidden: prints the hosts of the map.
inline constexpr auto kCompleteHosts = "complete-hosts";

std::string bash_completion(const std::vector<CommandNode>& commands);
std::string zsh_completion(const std::vector<CommandNode>& commands);
std::string fish_completion(const std::vector<CommandNode>& commands);

}  // namespace lockstep::cli
