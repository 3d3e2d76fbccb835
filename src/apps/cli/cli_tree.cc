#include "apps/cli/cli_tree.h"

#include <string_view>

#include "apps/cli/subcommand.h"

namespace lockstep::cli {
namespace {

std::vector<std::string> split(std::string_view words, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= words.size();) {
    std::size_t end = std::min(words.find(separator, begin), words.size());
    parts.emplace_back(words.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

ValueKind kind_of(const CLI::Option& option) {
  const std::string& type = option.get_type_name();
  if (option.get_type_size_max() == 0) return ValueKind::none;
  if (type == kRunValue) return ValueKind::run;
  if (type == kHostValue) return ValueKind::host;
  if (type == kProgramValue) return ValueKind::program;
  if (type == kFileValue) return ValueKind::file;
  if (type == kFolderValue) return ValueKind::folder;
  if (type == kCommandValue) return ValueKind::command;
  return type.find('|') == std::string::npos ? ValueKind::other : ValueKind::choice;
}

OptionNode node_of(const CLI::Option& option) {
  OptionNode node{
      .names = {}, .help = option.get_description(), .kind = kind_of(option), .choices = {}};
  for (const std::string& name : option.get_snames()) node.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) node.names.push_back("--" + name);
  if (node.kind == ValueKind::choice) node.choices = split(option.get_type_name(), '|');
  return node;
}

CommandNode node_of(const CLI::App& command) {
  CommandNode node{.name = command.get_name(),
                   .help = command.get_description(),
                   .options = {},
                   .arguments = {}};
  for (const CLI::Option* option : command.get_options())
    (option->get_positional() ? node.arguments : node.options).push_back(node_of(*option));
  return node;
}

}  // namespace

std::vector<CommandNode> cli_tree(const CLI::App& app) {
  std::vector<CommandNode> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty()) commands.push_back(node_of(*command));
  return commands;
}

}  // namespace lockstep::cli
