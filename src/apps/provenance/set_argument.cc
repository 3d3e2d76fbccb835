#include "apps/provenance/set_argument.h"

#include <cstddef>
#include <string_view>

#include "base/format.h"

namespace lockstep::cli {
namespace {

// An option, but not a negative number.
bool is_option(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && word[1] != '.' && (word[1] < '0' || word[1] > '9');
}

// The part of "--lr=3" or "++lr=3" before the value; empty: the word does not set the key.
std::string_view name_part(std::string_view word, std::string_view key) {
  for (const std::string_view prefix : {"--", "++", "+", ""}) {
    if (!word.starts_with(prefix)) continue;
    const std::string_view rest = word.substr(prefix.size());
    if (rest.starts_with(key) && rest.substr(key.size()).starts_with('='))
      return word.substr(0, prefix.size() + key.size() + 1);
  }
  return {};
}

bool names(std::string_view word, std::string_view key) {
  return (word.starts_with("--") && word.substr(2) == key) || !name_part(word, key).empty();
}

void set_value(std::vector<std::string>& command, std::size_t index, std::string_view key,
               const std::string& value) {
  std::string& word = command[index];
  if (const std::string_view name = name_part(word, key); !name.empty())
    word = std::string(name) + value;
  else if (index + 1 < command.size() && !is_option(command[index + 1]))
    command[index + 1] = value;
  else  // it was a flag
    word += "=" + value;
}

}  // namespace

Result<ArgumentChange> set_argument(const std::string& setting, std::vector<std::string>& command) {
  const auto equals = setting.find('=');
  if (equals == std::string::npos || equals == 0 || setting[0] == '-')
    return Error{Code::invalid,
                 format("--set {}: write KEY=VALUE, such as lr=3e-4 for --lr 3e-4", setting)};
  const std::string key = setting.substr(0, equals), value = setting.substr(equals + 1);
  std::vector<std::size_t> found;
  for (std::size_t i = 1; i < command.size(); ++i)
    if (names(command[i], key)) found.push_back(i);
  if (found.size() > 1)
    return Error{Code::invalid,
                 format("--set {}: the command has {} more than once; give the whole command "
                        "after --",
                        setting, key)};
  if (found.empty()) {
    command.push_back(format("--{}={}", key, value));
    return ArgumentChange::added;
  }
  set_value(command, found.front(), key, value);
  return ArgumentChange::replaced;
}

}  // namespace lockstep::cli
