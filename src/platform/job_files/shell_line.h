// A line of a shell script as words, without executing it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::job_files {

struct ShellWord {
  std::string text;
  // A part that the shell would put in and is not known here, such as "$HOST"; the text is then of
  // no use.
  std::optional<std::string> unknown{};
};

struct ShellLine {
  std::vector<ShellWord> words;
  std::string redirected;  // the part that sends output elsewhere; empty: none
};

using ShellVariables = std::map<std::string, std::string, std::less<>>;

// Handles quotes, backslashes and the variables given. Code::invalid, with the construct, if the
// line is more than one command (`;`, `&&`, `|` other than to tee, `(`).
Result<ShellLine> parse_shell_line(std::string_view line, const ShellVariables& variables);

// The words' texts. Code::invalid if one is unknown.
Result<std::vector<std::string>> known_texts(const std::vector<ShellWord>& words);

}  // namespace lockstep::job_files
