// What is said to a command line that cannot be read.
#pragma once

#include <span>
#include <string>

#include <CLI/CLI.hpp>

#include "base/result.h"

namespace lockstep {

// Words are kept and shown as UTF-8: others are refused, and named.
Result<void> check_words(std::span<char* const> words);
// In one line: what is wrong and what shows the right way. `words` follow the program's name.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error,
                        std::span<char* const> words);

}  // namespace lockstep
