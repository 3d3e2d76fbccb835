#include "text/scalar.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "base/format.h"

namespace lockstep {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t skip_digits(std::string_view words, std::size_t at) {
  while (at < words.size() && is_digit(words[at])) ++at;
  return at;
}

// [-+]? [0-9]+
bool looks_decimal(std::string_view words) {
  std::size_t start = !words.empty() && (words[0] == '-' || words[0] == '+') ? 1 : 0;
  return start < words.size() && skip_digits(words, start) == words.size();
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool looks_float(std::string_view words) {
  std::size_t at = !words.empty() && (words[0] == '-' || words[0] == '+') ? 1 : 0;
  std::size_t whole = skip_digits(words, at) - at;
  at += whole;
  if (at < words.size() && words[at] == '.') {
    std::size_t fraction = skip_digits(words, at + 1) - (at + 1);
    if (whole + fraction == 0) return false;
    at += 1 + fraction;
  } else if (whole == 0) {
    return false;
  }
  if (at == words.size()) return true;
  if (words[at] != 'e' && words[at] != 'E') return false;
  return looks_decimal(words.substr(at + 1));
}

Result<Json> out_of_range(std::string_view words) {
  return Error{Code::invalid, format("the number {} is out of range", words)};
}

// Digits in the base, without sign or prefix.
template <class T>
Result<Json> whole_number(std::string_view words, std::string_view digits, int base) {
  T value{};
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return out_of_range(words);
  return Json(value);
}

Result<Json> float_number(std::string_view words) {
  std::string_view digits = words.front() == '+' ? words.substr(1) : words;
  double value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  // Too small for a double also lands here; such a number is a slip as well.
  if (error != std::errc() || end != digits.data() + digits.size()) return out_of_range(words);
  return Json(value);
}

bool is_one_of(std::string_view words, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), words) != all.end();
}

bool has_prefix_and_digits(std::string_view words, std::string_view prefix,
                           std::string_view digits) {
  return words.starts_with(prefix) && words.size() > prefix.size() &&
         words.find_first_not_of(digits, prefix.size()) == words.npos;
}

}  // namespace

Result<Json> plain_scalar(const std::string& words) {
  if (is_one_of(words, {"", "~", "null", "Null", "NULL"})) return Json();
  if (is_one_of(words, {"true", "True", "TRUE"})) return Json(true);
  if (is_one_of(words, {"false", "False", "FALSE"})) return Json(false);
  if (is_one_of(words, {".nan", ".NaN", ".NAN"})) return Json("NaN");
  std::string_view unsigned_words = words;
  if (words[0] == '+' || words[0] == '-') unsigned_words.remove_prefix(1);
  if (is_one_of(unsigned_words, {".inf", ".Inf", ".INF"}))
    return Json(words[0] == '-' ? "-Infinity" : "Infinity");
  if (has_prefix_and_digits(words, "0o", "01234567"))
    return whole_number<std::uint64_t>(words, unsigned_words.substr(2), 8);
  if (has_prefix_and_digits(words, "0x", "0123456789abcdefABCDEF"))
    return whole_number<std::uint64_t>(words, unsigned_words.substr(2), 16);
  if (looks_decimal(words))
    return words[0] == '-' ? whole_number<std::int64_t>(words, words, 10)
                           : whole_number<std::uint64_t>(words, unsigned_words, 10);
  if (looks_float(words)) return float_number(words);
  return Json(words);
}

}  // namespace lockstep
