#include "apps/cli/completion_scripts.h"

#include "base/format.h"

namespace lockstep::cli {
namespace {

std::vector<std::string> names_of(const std::vector<CommandNode>& commands) {
  std::vector<std::string> names;
  for (const CommandNode& command : commands) names.push_back(command.name);
  return names;
}

std::vector<std::string> topics(const std::vector<CommandNode>& commands) {
  std::vector<std::string> names = names_of(commands);
  names.emplace_back("exit-codes");
  names.emplace_back("settings");
  return names;
}

// Quotes text for single quotes.
std::string single_quoted(std::string_view words, std::string_view quote) {
  std::string result;
  for (char c : words) result += c == '\'' ? std::string(quote) : std::string(1, c);
  return result;
}

// --- bash ---

std::string bash_action(const OptionNode& value, const std::vector<CommandNode>& commands) {
  switch (value.kind) {
    case ValueKind::run:
      return format("_lockstep_words \"$(\"${{COMP_WORDS[0]}}\" {} \"$current\" 2>/dev/null)\"",
                    kCompleteRuns);
    case ValueKind::host:
      return format("_lockstep_words \"$(\"${{COMP_WORDS[0]}}\" {} 2>/dev/null)\"", kCompleteHosts);
    case ValueKind::program:
    case ValueKind::file:
      return "_lockstep_files -f";
    case ValueKind::folder:
      return "_lockstep_files -d";
    case ValueKind::command:
      return format("_lockstep_words '{}'", joined(topics(commands), " "));
    case ValueKind::choice:
      return format("_lockstep_words '{}'", joined(value.choices, " "));
    default:
      return ":";
  }
}

// By the number of words before it that are no options.
std::string bash_arguments(const std::vector<OptionNode>& arguments,
                           const std::vector<CommandNode>& commands) {
  if (arguments.empty()) return ":";
  if (arguments.size() == 1) return bash_action(arguments.front(), commands);
  std::string cases;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    cases += format("{}) {} ;; ", i + 1 == arguments.size() ? "*" : format("{}", i),
                    bash_action(arguments[i], commands));
  return format("case $place in {}esac", cases);
}

std::string bash_command(const CommandNode& command, const std::vector<CommandNode>& commands) {
  std::string values;
  std::vector<std::string> names;
  for (const OptionNode& option : command.options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
    if (option.kind == ValueKind::none) continue;
    values += format("        {}) {}; return ;;\n", joined(option.names, " | "),
                     bash_action(option, commands));
  }
  const std::string argument = bash_arguments(command.arguments, commands);
  return format(
      "    {})\n"
      "      case $before in\n{}      esac\n"
      "      if [[ $current == -* ]]; then _lockstep_words '{}'; else {}; fi ;;\n",
      command.name, values, joined(names, " "), argument);
}

constexpr std::string_view kBashHead =
    R"(# bash completion of lockstep; in ~/.bashrc: source <(lockstep completion bash)
_lockstep_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current"); }
_lockstep_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$current")
}
# The first word behind -- is a program, or a file of this folder.
_lockstep_program() {
  _lockstep_files -f
  [[ $before == -- && -n $current && $current != */* ]] || return
  mapfile -O "${#COMPREPLY[@]}" -t COMPREPLY < <(compgen -c -- "$current" | sort -u)
}
_lockstep() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} word place=0
  COMPREPLY=()
)";

// --- zsh ---

// Between [ and ] of _arguments, within single quotes.
std::string zsh_help(std::string_view words) {
  std::string result;
  for (char c : words) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return result;
}

std::string zsh_action(const OptionNode& value, const std::vector<CommandNode>& commands) {
  switch (value.kind) {
    case ValueKind::run:
      return "_lockstep_runs";
    case ValueKind::host:
      return "_lockstep_hosts";
    case ValueKind::program:
      return "_lockstep_program";
    case ValueKind::file:
      return "_files";
    case ValueKind::folder:
      return "_files -/";
    case ValueKind::command:
      return format("({})", joined(topics(commands), " "));
    case ValueKind::choice:
      return format("({})", joined(value.choices, " "));
    default:
      return " ";
  }
}

std::string zsh_command(const CommandNode& command, const std::vector<CommandNode>& commands) {
  std::string lines = format("    {})\n      _arguments", command.name);
  for (const OptionNode& option : command.options) {
    std::string value =
        option.kind == ValueKind::none ? "" : ":value:" + zsh_action(option, commands);
    for (const std::string& name : option.names)
      lines += format(" \\\n        '({}){}[{}]{}'", joined(option.names, " "), name,
                      zsh_help(option.help), value);
  }
  for (std::size_t i = 0; i < command.arguments.size(); ++i)
    lines += format(" \\\n        '{}:argument:{}'",
                    i + 1 == command.arguments.size() ? "*" : format("{}", i + 1),
                    zsh_action(command.arguments[i], commands));
  return lines + " ;;\n";
}

// --- fish ---

std::string fish_value(const OptionNode& value, const std::vector<CommandNode>& commands) {
  switch (value.kind) {
    case ValueKind::run:
      return format(" -x -a '(lockstep {} (commandline -ct) 2>/dev/null)'", kCompleteRuns);
    case ValueKind::host:
      return format(" -x -a '(lockstep {} 2>/dev/null)'", kCompleteHosts);
    case ValueKind::program:
    case ValueKind::file:
      return " -r -F";
    case ValueKind::folder:
      return " -x -a '(__fish_complete_directories)'";
    case ValueKind::command:
      return format(" -x -a '{}'", joined(topics(commands), " "));
    case ValueKind::choice:
      return format(" -x -a '{}'", joined(value.choices, " "));
    case ValueKind::other:
      return " -x";
    case ValueKind::none:
      break;
  }
  return "";
}

std::string fish_option(const CommandNode& command, const OptionNode& option,
                        const std::vector<CommandNode>& commands) {
  std::string line =
      format("complete -c lockstep -n '__fish_seen_subcommand_from {}'", command.name);
  for (const std::string& name : option.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  return format("{}{} -d '{}'\n", line, fish_value(option, commands),
                single_quoted(option.help, "\\'"));
}

std::string fish_command(const CommandNode& command, const std::vector<CommandNode>& commands) {
  std::string lines = format("complete -c lockstep -n __fish_use_subcommand -a {} -d '{}'\n",
                             command.name, single_quoted(command.help, "\\'"));
  for (const OptionNode& option : command.options) lines += fish_option(command, option, commands);
  const std::string here = format("__fish_seen_subcommand_from {}", command.name);
  for (std::size_t i = 0; i < command.arguments.size(); ++i) {
    const OptionNode& argument = command.arguments[i];
    if (argument.kind == ValueKind::other) continue;
    const bool last = i + 1 == command.arguments.size();
    // The program and the command stand before it.
    const std::string place =
        command.arguments.size() == 1
            ? ""
            : format("; and test (count (commandline -opc)) {} {}", last ? "-ge" : "-eq", i + 2);
    lines +=
        format("complete -c lockstep -n '{}{}'{}\n", here, place, fish_value(argument, commands));
    if (argument.kind == ValueKind::program)
      lines += format(
          "complete -c lockstep -n '{}; and test (commandline -opc)[-1] = --' "
          "-a '(__fish_complete_command)'\n",
          here);
  }
  return lines;
}

}  // namespace

std::string bash_completion(const std::vector<CommandNode>& commands) {
  std::string script(kBashHead);
  script += format(
      "  if ((COMP_CWORD == 1)); then _lockstep_words '{}'; return; fi\n"
      "  for word in \"${{COMP_WORDS[@]:2:COMP_CWORD-2}}\"; do  # behind -- stands a program\n"
      "    if [[ $word == -- ]]; then _lockstep_program; return; fi\n"
      "    [[ $word == -* ]] || place=$((place + 1))\n"
      "  done\n"
      "  case ${{COMP_WORDS[1]}} in\n",
      joined(names_of(commands), " "));
  for (const CommandNode& command : commands) script += bash_command(command, commands);
  return script + "  esac\n}\ncomplete -F _lockstep lockstep";
}

std::string zsh_completion(const std::vector<CommandNode>& commands) {
  std::string script = format(
      "#compdef lockstep\n"
      "# zsh completion of lockstep; in ~/.zshrc, behind compinit: source <(lockstep completion "
      "zsh)\n"
      "_lockstep_runs() {{\n"
      "  local -a runs\n"
      "  runs=(${{(f)\"$(lockstep {} \"$PREFIX\" 2>/dev/null)\"}})\n"
      "  compadd -a runs\n"
      "}}\n"
      "_lockstep_hosts() {{\n"
      "  local -a hosts\n"
      "  hosts=(${{(f)\"$(lockstep {} 2>/dev/null)\"}})\n"
      "  compadd -a hosts\n"
      "}}\n"
      "_lockstep_program() {{\n"
      "  if [[ $words[CURRENT-1] == -- ]]; then _command_names -e; fi\n"
      "  _files\n"
      "}}\n"
      "_lockstep() {{\n"
      "  local -a subcommands=(\n",
      kCompleteRuns, kCompleteHosts);
  for (const CommandNode& command : commands)
    script += format("    '{}:{}'\n", command.name, single_quoted(command.help, "'\\''"));
  script +=
      "  )\n"
      "  if ((CURRENT == 2)); then _describe command subcommands; return; fi\n"
      "  shift words; ((CURRENT--))\n"
      "  case $words[1] in\n";
  for (const CommandNode& command : commands) script += zsh_command(command, commands);
  return script +
         "  esac\n}\n"
         "if [[ $funcstack[1] == _lockstep ]]; then _lockstep; else compdef _lockstep lockstep; fi";
}

std::string fish_completion(const std::vector<CommandNode>& commands) {
  std::string script =
      "# fish completion of lockstep; in ~/.config/fish/config.fish: lockstep completion fish | "
      "source\n"
      "complete -c lockstep -f\n";
  for (const CommandNode& command : commands) script += fish_command(command, commands);
  script.pop_back();
  return script;
}

}  // namespace lockstep::cli
