// Values of runs as a query compares and sorts them: a number, a text, or none.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace lockstep::run_query {

// The first alternative: the run has no such value. A number may be NaN.
using Value = std::variant<std::monostate, double, std::string>;

// Digits with an optional sign, point and exponent, as users write settings: "3e-4". None: a text,
// such as "0x10" or "inf".
std::optional<double> plain_number(std::string_view text);
// The same as a query writes it, where 90s and 2h are seconds, and inf is one.
std::optional<double> query_number(std::string_view text);

// Letters of ASCII in lower case.
std::string lower_case(std::string_view text);

// Sorts by its bytes as people expect: without case, and digits by the size of their number.
std::string natural_key(std::string_view text);

// The key that sorts a value: numbers, then texts by natural_key(). None: it is the last in both
// directions, as NaN and an empty text are.
using SortKey = std::variant<double, std::string>;
std::optional<SortKey> sort_key(const Value& value);

// As a group is named: "0.001", "adam"; empty: none.
std::string text(const Value& value);

}  // namespace lockstep::run_query
