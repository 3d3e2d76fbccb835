#include "text/shell_words.h"

#include <algorithm>
#include <cctype>

#include "base/format.h"
#include "base/utf8.h"

namespace lockstep {
namespace {

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("@%+=:,./_-").find(c) != std::string_view::npos;
}

// A shell interprets nothing between single quotes; a single quote itself is written outside.
std::string quoted(std::string_view word) {
  std::string result = "'";
  for (char c : word) result += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  return result + "'";
}

// bash's $'...': escapes, byte by byte, what a terminal would interpret.
std::string escaped_word(std::string_view word) {
  std::string result = "$'";
  for (char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      result += "\\n";
    else if (c == '\t')
      result += "\\t";
    else if (c == '\'' || c == '\\')
      result += std::string("\\") + c;
    else if (byte < 0x20 || byte >= 0x7f)
      result += format("\\x{:02x}", byte);
    else
      result += c;
  }
  return result + "'";
}

std::string shell_word(std::string_view word) {
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return std::string(word);
  return is_printable(word) ? quoted(word) : escaped_word(word);
}

}  // namespace

std::string shell_words(const std::vector<std::string>& words) {
  std::vector<std::string> shown;
  for (const std::string& word : words) shown.push_back(shell_word(word));
  return joined(shown, " ");
}

}  // namespace lockstep
