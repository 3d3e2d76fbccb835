// Secrets that a user types or names a file for: tokens, passwords, values.
#pragma once

#include <string>

#include "base/result.h"

namespace lockstep::cli {

// A line from the terminal, which does not show it; else a line of standard input. The question
// goes to standard error, and only to a terminal.
std::string hidden_line(const std::string& question);

// The content of the file, or of standard input if it is "-", without its last line break. Without
// a file: a hidden line. `option` names it in the error.
Result<std::string> file_or_hidden_line(const std::string& option, const std::string& file,
                                        const std::string& question);

// A password that is typed twice; from a file once.
Result<std::string> new_password(const std::string& option, const std::string& file);

}  // namespace lockstep::cli
