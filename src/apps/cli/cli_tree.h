// The commands as a plain tree, read from CLI11. Shell completion is made from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace lockstep::cli {

enum class ValueKind { none, other, run, host, program, file, folder, command, choice };

struct OptionNode {
  std::vector<std::string> names;  // "-n", "--nodes"
  std::string help;
  ValueKind kind = ValueKind::none;  // none: a flag
  std::vector<std::string> choices;  // of a choice
};

struct CommandNode {
  std::string name;
  std::string help;
  std::vector<OptionNode> options;
  std::vector<OptionNode> arguments;  // the last stands for all that follow
};

// The visible commands, in the order of the help.
std::vector<CommandNode> cli_tree(const CLI::App& app);

}  // namespace lockstep::cli
