#include "apps/cli/usage.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <vector>

#include "apps/cli/subcommand.h"
#include "base/format.h"
#include "base/utf8.h"
#include "text/nearest.h"

namespace lockstep::cli {
namespace {

// Null if the command has no such option.
const CLI::Option* find_option(const CLI::App& command, const std::string& name) {
  return command.get_option_no_throw(name);
}

// "--nodes" of "--nodes=2", "-n" of "-n2"; nothing if the word is no option.
std::optional<std::string> option_name(std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return std::nullopt;
  if (word.starts_with("--")) return std::string(word.substr(0, word.find('=')));
  if (std::isdigit(static_cast<unsigned char>(word[1])) != 0) return std::nullopt;
  return std::string(word.substr(0, 2));
}

// The first option before "--" that the command does not have.
std::optional<std::string> unknown_option(const CLI::App& command, std::span<char* const> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--") return std::nullopt;
    const auto name = option_name(word);
    if (!name) continue;
    const CLI::Option* option = find_option(command, *name);
    if (option == nullptr) return name;
    if (option->get_type_size_max() > 0 && *name == word) ++i;  // its value
  }
  return std::nullopt;
}

std::string no_option(const CLI::App& command, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string hint = did_you_mean(name, known);
  if (!hint.empty()) return format("there is no option '{}'{}", name, hint);
  const bool runs = command.get_name() == "run";
  return format("there is no option '{}'{};", name,
                runs ? "; a program and its options come after --" : "");
}

std::string missing(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    const std::string& type = option->get_type_name();
    if (type == kRunValue) return "name a run, such as demo/42;";
    if (type.find('|') != std::string::npos)
      return format("{} is required: {};", option->get_name(), type);
    // The help shows an argument by the kind of its value.
    return format("{} is required;", option->get_positional() ? type : option->get_name());
  }
  return "something is missing;";
}

// "--nodes" of "--nodes: At Most 1 required but received 2".
std::string subject_of(std::string_view message) {
  return std::string(message.substr(0, message.find_first_of(": ")));
}

std::string wrong_count(const CLI::App& command, const std::string& message) {
  const std::string name = subject_of(message);
  const CLI::Option* option = find_option(command, name);
  if (message.find("disallowed") != std::string::npos) return name + " takes no value;";
  if (option != nullptr && static_cast<int>(option->count()) > option->get_items_expected_max())
    return name + " is given more than once;";
  return name + " needs a value;";
}

// "--detach excludes --plan"
std::string not_together(const std::string& message) {
  const auto words = message.find(" excludes ");
  if (words == std::string::npos) return message + ";";
  return format("{} and {} cannot be used together;", message.substr(0, words),
                message.substr(words + std::string_view(" excludes ").size()));
}

std::string what_is_wrong(const CLI::App& app, const CLI::App& command,
                          const CLI::ParseError& error) {
  const std::string message = error.what();
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return missing(command);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return wrong_count(command, message);
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) return not_together(message);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return message + ";";
  const std::vector<std::string> remaining = app.remaining(true);
  return format("takes no argument '{}';", remaining.empty() ? "" : remaining.front());
}

}  // namespace

Result<void> check_utf8_arguments(std::span<char* const> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (is_utf8(word)) continue;
    const std::size_t equals = word.find('=');  // the value after it may be a secret
    return Error{
        Code::invalid,
        format("the argument {} ('{}{}') is not UTF-8; Lockstep takes UTF-8 only", i + 1,
               escape_controls(word.substr(0, equals)), equals == word.npos ? "" : "=...")};
  }
  return {};
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error,
                        std::span<char* const> words) {
  const auto parsed = app.get_subcommands();
  const CLI::App& command = parsed.empty() ? app : *parsed.front();
  const std::string name = parsed.empty() ? "" : command.get_name();
  // Checked first: the words after a mistyped option are misread.
  const auto unknown = unknown_option(command, words.subspan(parsed.empty() ? 0 : 1));
  std::string what = unknown ? no_option(command, *unknown) : what_is_wrong(app, command, error);
  if (!name.empty() && !what.starts_with(name + ": ")) what = name + ": " + what;
  return format("lockstep: {} `lockstep help{}{}` shows what it takes", what,
                name.empty() ? "" : " ", name);
}

}  // namespace lockstep::cli
