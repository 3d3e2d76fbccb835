#include "platform/run_query/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <system_error>

#include "base/format.h"

namespace lockstep::run_query {
namespace {

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

// from_chars() knows no plus sign, and reads inf and nan, which are texts.
std::optional<double> finite_number(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  const std::size_t first = text.starts_with('-') ? 1 : 0;
  if (text.size() <= first || (!is_digit(text[first]) && text[first] != '.')) return std::nullopt;
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [read, failed] = std::from_chars(text.data(), end, number);
  if (failed != std::errc() || read != end) return std::nullopt;
  return number;
}

double seconds_in(char unit) {
  switch (lower(unit)) {
    case 's':
      return 1;
    case 'm':
      return 60;
    case 'h':
      return 3600;
    case 'd':
      return 86400;
    default:
      return 0;
  }
}

// Enough to sort by; a query compares the text itself.
constexpr std::size_t kKeyBytesMax = 256;

// The number of digits before them, so that more digits come later.
void add_digits(std::string& key, std::string_view digits) {
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  std::size_t count = digits.size();
  for (; count >= 9; count -= 9) key += '9';
  key += static_cast<char>('0' + count);
  key += digits;
}

// The bytes of the text's first letters that take at most so many in UTF-8.
std::size_t whole_letters(std::string_view text, std::size_t most) {
  constexpr unsigned kFollowing = 0x80;  // 10xxxxxx
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == kFollowing) --most;
  return most;
}

}  // namespace

std::optional<double> plain_number(std::string_view text) { return finite_number(text); }

std::optional<double> query_number(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const std::string word = lower_case(text);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (word == "inf" || word == "+inf") return kInfinity;
  if (word == "-inf") return -kInfinity;
  const double unit = seconds_in(text.back());
  if (unit == 0) return finite_number(text);
  const auto number = finite_number(text.substr(0, text.size() - 1));
  if (!number) return std::nullopt;
  return *number * unit;
}

std::string lower_case(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(), lower);
  return small;
}

std::string natural_key(std::string_view text) {
  std::string key;
  for (std::size_t at = 0; at < text.size() && key.size() <= kKeyBytesMax;) {
    if (!is_digit(text[at])) {
      key += lower(text[at++]);
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && is_digit(text[end])) ++end;
    add_digits(key, text.substr(at, end - at));
    at = end;
  }
  if (key.size() > kKeyBytesMax) key.resize(whole_letters(key, kKeyBytesMax));
  return key;
}

std::optional<SortKey> sort_key(const Value& value) {
  if (const auto* words = std::get_if<std::string>(&value)) {
    if (words->empty()) return std::nullopt;
    return natural_key(*words);
  }
  const auto* number = std::get_if<double>(&value);
  if (number == nullptr || std::isnan(*number)) return std::nullopt;
  return *number;
}

std::string text(const Value& value) {
  if (const auto* words = std::get_if<std::string>(&value)) return *words;
  if (const auto* number = std::get_if<double>(&value)) {
    if (std::isnan(*number)) return "NaN";
    if (std::isinf(*number)) return *number > 0 ? "Infinity" : "-Infinity";
    return format("{}", *number);
  }
  return "";
}

}  // namespace lockstep::run_query
