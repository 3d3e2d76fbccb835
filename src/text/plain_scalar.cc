#include "text/plain_scalar.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "base/format.h"

namespace lockstep {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t skip_digits(std::string_view input, std::size_t at) {
  while (at < input.size() && is_digit(input[at])) ++at;
  return at;
}

// [-+]? [0-9]+
bool looks_decimal(std::string_view input) {
  std::size_t start = !input.empty() && (input[0] == '-' || input[0] == '+') ? 1 : 0;
  return start < input.size() && skip_digits(input, start) == input.size();
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool looks_float(std::string_view input) {
  std::size_t at = !input.empty() && (input[0] == '-' || input[0] == '+') ? 1 : 0;
  std::size_t whole = skip_digits(input, at) - at;
  at += whole;
  if (at < input.size() && input[at] == '.') {
    std::size_t fraction = skip_digits(input, at + 1) - (at + 1);
    if (whole + fraction == 0) return false;
    at += 1 + fraction;
  } else if (whole == 0) {
    return false;
  }
  if (at == input.size()) return true;
  if (input[at] != 'e' && input[at] != 'E') return false;
  return looks_decimal(input.substr(at + 1));
}

Result<Json> out_of_range(std::string_view input) {
  return Error{Code::invalid, format("the number {} is out of range", input)};
}

// Digits in the base, without sign or prefix.
template <class T>
Result<Json> whole_number(std::string_view input, std::string_view digits, int base) {
  T value{};
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return out_of_range(input);
  return Json(value);
}

Result<Json> float_number(std::string_view input) {
  std::string_view digits = input.front() == '+' ? input.substr(1) : input;
  double value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  // Also for a number too small for a double, which is a mistake as well.
  if (error != std::errc() || end != digits.data() + digits.size()) return out_of_range(input);
  return Json(value);
}

bool is_one_of(std::string_view input, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), input) != all.end();
}

bool has_prefix_and_digits(std::string_view input, std::string_view prefix,
                           std::string_view digits) {
  return input.starts_with(prefix) && input.size() > prefix.size() &&
         input.find_first_not_of(digits, prefix.size()) == input.npos;
}

}  // namespace

Result<Json> parse_plain_scalar(const std::string& input) {
  if (is_one_of(input, {"", "~", "null", "Null", "NULL"})) return Json();
  if (is_one_of(input, {"true", "True", "TRUE"})) return Json(true);
  if (is_one_of(input, {"false", "False", "FALSE"})) return Json(false);
  if (is_one_of(input, {".nan", ".NaN", ".NAN"})) return Json("NaN");
  std::string_view unsigned_input = input;
  if (input[0] == '+' || input[0] == '-') unsigned_input.remove_prefix(1);
  if (is_one_of(unsigned_input, {".inf", ".Inf", ".INF"}))
    return Json(input[0] == '-' ? "-Infinity" : "Infinity");
  if (has_prefix_and_digits(input, "0o", "01234567"))
    return whole_number<std::uint64_t>(input, unsigned_input.substr(2), 8);
  if (has_prefix_and_digits(input, "0x", "0123456789abcdefABCDEF"))
    return whole_number<std::uint64_t>(input, unsigned_input.substr(2), 16);
  if (looks_decimal(input))
    return input[0] == '-' ? whole_number<std::int64_t>(input, input, 10)
                           : whole_number<std::uint64_t>(input, unsigned_input, 10);
  if (looks_float(input)) return float_number(input);
  return Json(input);
}

}  // namespace lockstep
