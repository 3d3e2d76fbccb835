// Error messages for a command line that cannot be parsed.
#pragma once

#include <span>
#include <string>

#include <CLI/CLI.hpp>

#include "base/result.h"

namespace lockstep::cli {

// Arguments are stored and shown as UTF-8: refuses and names others.
Result<void> check_utf8_arguments(std::span<char* const> words);
// One line with the error and the command that shows the correct usage. `words` follow the
// program's name.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error,
                        std::span<char* const> words);

}  // namespace lockstep::cli
