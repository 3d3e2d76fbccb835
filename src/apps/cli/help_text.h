// The text of help: the overview of all commands by topic, and the page of each command.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace lockstep::cli {

// `lockstep help`.
std::string overview(const CLI::App& app);
// `lockstep help COMMAND`, and COMMAND --help.
std::string command_page(const CLI::App& command);

// Makes CLI11 print these pages.
class HelpText : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

}  // namespace lockstep::cli
