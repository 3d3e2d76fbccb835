// Words as a user would type them into a shell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// One line: words with blanks or other characters that a shell interprets are quoted; control
// characters are escaped as in $'one\ntwo'.
std::string shell_words(const std::vector<std::string>& words);

}  // namespace lockstep
