#include "apps/cli/help_text.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kTermMax = 28;  // a longer one has its explanation on the next line

constexpr std::string_view kFirstRun =
    "A first run\n"
    "  lockstep serve --hosts 2x2 --detach          this machine as two hosts of two devices\n"
    "  lockstep run -n 2 -g 2 -- python train.py    four ranks, followed until they end\n"
    "  lockstep ps                                  what ran and how it ended\n";

constexpr std::string_view kFurther =
    "Where to go on\n"
    "  lockstep help COMMAND       what a command takes, with an example\n"
    "  lockstep help exit-codes    what the exit codes mean\n"
    "  lockstep help settings      the bounds of the daemon\n"
    "  docs/guide/start.md         from nothing to a trained model, and a script of your own";

// A term and its explanation.
using Entry = std::pair<std::string, std::string>;

// Wraps text at blanks, so that each line with its indent fits the width.
std::string wrapped(std::string_view words, std::size_t indent) {
  std::string lines;
  std::size_t column = indent;
  while (!words.empty()) {
    std::size_t end = std::min(words.find(' '), words.size());
    std::string_view word = words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
    bool first = lines.empty();
    if (!first && column + 1 + word.size() > kWidth) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines;
}

std::string section(std::string_view title, const std::vector<Entry>& entries) {
  if (entries.empty()) return "";
  std::size_t width = 0;
  for (const auto& [term, meaning] : entries)
    if (term.size() <= kTermMax) width = std::max(width, term.size());
  std::size_t indent = 2 + width + 2;
  std::string lines = format("{}\n", title);
  for (const auto& [term, meaning] : entries) {
    lines += "  " + term;
    lines += term.size() > width ? "\n" + std::string(indent, ' ')
                                 : std::string(indent - 2 - term.size(), ' ');
    lines += wrapped(meaning, indent) + "\n";
  }
  return lines + "\n";
}

std::vector<const CLI::App*> visible_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::string value_of(const CLI::Option& option) {
  if (option.get_type_size_max() == 0) return "";  // a flag
  std::string value = " " + option.get_type_name();
  if (!option.get_default_str().empty()) value += "=" + option.get_default_str();
  return value;
}

std::string term_of(const CLI::Option& option) {
  std::string term = option.get_snames().empty() ? "" : "-" + option.get_snames().front();
  if (!option.get_lnames().empty())
    term += (term.empty() ? "--" : ", --") + option.get_lnames().front();
  return term + value_of(option);
}

// RUN, [METRIC...], ...
std::string usage_of(const CLI::Option& positional) {
  std::string word = positional.get_type_name();
  if (positional.get_expected_max() > 1) word += "...";
  return positional.get_required() ? word : "[" + word + "]";
}

void add_to_usage(std::string& usage, const std::string& word) {
  constexpr std::size_t kColumnsMax = 100;
  const std::size_t line = usage.size() - (usage.rfind('\n') + 1);
  usage += (line + 1 + word.size() <= kColumnsMax ? " " : "\n    ") + word;
}

}  // namespace

std::string overview(const CLI::App& app) {
  std::string page =
      app.get_description() + "\n\nUsage: lockstep [--profile NAME] COMMAND [OPTIONS]\n\n";
  const auto commands = visible_commands(app);
  for (auto begin = commands.begin(); begin != commands.end();) {
    const std::string& group = (*begin)->get_group();
    std::vector<Entry> entries;
    for (; begin != commands.end() && (*begin)->get_group() == group; ++begin)
      entries.emplace_back(format("{:<10}", (*begin)->get_name()), (*begin)->get_description());
    page += section(group, entries);
  }
  return format("{}{}\n{}", page, kFirstRun, kFurther);
}

std::string command_page(const CLI::App& command) {
  std::vector<Entry> arguments, options;
  std::string usage = "Usage: lockstep " + command.get_name() + " [OPTIONS]";
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) {
      add_to_usage(usage, usage_of(*option));
      arguments.emplace_back(option->get_type_name(), option->get_description());
    } else {
      options.emplace_back(term_of(*option), option->get_description());
    }
  }
  std::string footer = command.get_footer();
  return command.get_description() + ".\n\n" + usage + "\n\n" + section("Arguments", arguments) +
         section("Options", options) + footer;
}

std::string HelpText::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  return (app->get_parent() == nullptr ? overview(*app) : command_page(*app)) + "\n";
}

}  // namespace lockstep::cli
