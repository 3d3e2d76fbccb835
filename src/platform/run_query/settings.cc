#include "platform/run_query/settings.h"

#include <cstddef>
#include <string_view>

namespace lockstep::run_query {
namespace {

bool is_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}
bool is_digit_of_setting(char letter) { return letter >= '0' && letter <= '9'; }

// A letter, then letters, digits and `further` ones.
bool is_setting_name(std::string_view name, std::string_view further) {
  if (name.empty() || !is_letter(name.front())) return false;
  for (const char letter : name)
    if (!is_letter(letter) && !is_digit_of_setting(letter) &&
        further.find(letter) == std::string_view::npos)
      return false;
  return true;
}

// No option; -1 and -.5 are numbers.
bool is_value(std::string_view word) {
  if (!word.starts_with('-')) return true;
  word.remove_prefix(1);
  if (word.starts_with('.')) word.remove_prefix(1);
  return !word.empty() && is_digit_of_setting(word.front());
}

std::string_view without_plus(std::string_view word) {
  for (int count = 0; count < 2 && word.starts_with('+'); ++count) word.remove_prefix(1);
  return word;
}

}  // namespace

std::map<std::string, std::string> settings_of(std::span<const std::string> command) {
  std::map<std::string, std::string> settings;
  for (std::size_t index = 1; index < command.size(); ++index) {
    const std::string_view word = command[index];
    const bool is_option = word.starts_with("--");
    const std::string_view words = is_option ? word.substr(2) : without_plus(word);
    const std::size_t equals = words.find('=');
    const std::string_view name = words.substr(0, equals);
    if (!is_setting_name(name, is_option ? "_.-" : "_./-")) continue;
    if (equals != std::string_view::npos)
      settings[std::string(name)] = words.substr(equals + 1);
    else if (is_option && index + 1 < command.size() && is_value(command[index + 1]))
      settings[std::string(name)] = command[++index];
    else if (is_option)
      settings[std::string(name)] = "true";
  }
  return settings;
}

}  // namespace lockstep::run_query
