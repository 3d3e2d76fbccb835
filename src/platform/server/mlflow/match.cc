#include "platform/server/mlflow/match.h"

#include <algorithm>
#include <cctype>

namespace lockstep::mlflow {
namespace {

bool is_equal_letter(char a, char b, LetterCase letters) {
  if (letters == LetterCase::same) return a == b;
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

bool is_number_true(double value, const Comparison& comparison) {
  using enum Operator;
  const double other = comparison.number;
  switch (comparison.is) {
    case equal:
      return value == other;
    case unequal:
      return value != other;
    case less:
      return value < other;
    case at_most:
      return value <= other;
    case greater:
      return value > other;
    case at_least:
      return value >= other;
    default:
      return false;  // check_operator() refuses the others
  }
}

bool is_text_true(const std::string& value, const Comparison& comparison) {
  using enum Operator;
  const auto& texts = comparison.texts;
  switch (comparison.is) {
    case equal:
      return value == texts.front();
    case unequal:
      return value != texts.front();
    case like:
      return is_like(value, texts.front(), LetterCase::same);
    case ilike:
      return is_like(value, texts.front(), LetterCase::any);
    case in:
      return std::ranges::find(texts, value) != texts.end();
    case not_in:
      return std::ranges::find(texts, value) == texts.end();
    case is_not_null:
      return true;
    default:
      return false;
  }
}

bool is_true(const ColumnValue& value, const Comparison& comparison) {
  if (!value)
    return comparison.is == Operator::is_null || comparison.is == Operator::unequal ||
           comparison.is == Operator::not_in;
  if (const auto* number = std::get_if<double>(&*value)) return is_number_true(*number, comparison);
  return is_text_true(std::get<std::string>(*value), comparison);
}

}  // namespace

// After a mismatch it goes on from the last '%', which then takes one letter more.
bool is_like(std::string_view text, std::string_view pattern, LetterCase letters) {
  std::size_t at = 0, of_pattern = 0, retry_at = 0;
  std::size_t retry_of_pattern = std::string_view::npos;
  while (at < text.size()) {
    if (of_pattern < pattern.size() && pattern[of_pattern] == '%') {
      retry_of_pattern = ++of_pattern;
      retry_at = at;
    } else if (of_pattern < pattern.size() &&
               (pattern[of_pattern] == '_' ||
                is_equal_letter(pattern[of_pattern], text[at], letters))) {
      ++of_pattern;
      ++at;
    } else if (retry_of_pattern != std::string_view::npos) {
      of_pattern = retry_of_pattern;
      at = ++retry_at;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('%', of_pattern) == std::string_view::npos;
}

bool matches(const std::vector<Comparison>& filter, const ColumnOf& column) {
  return std::ranges::all_of(filter, [&](const Comparison& comparison) {
    return is_true(column(comparison.column), comparison);
  });
}

bool is_before(const std::vector<Ordering>& order, const ColumnOf& a, const ColumnOf& b) {
  for (const Ordering& ordering : order) {
    const ColumnValue left = a(ordering.column), right = b(ordering.column);
    if (left.has_value() != right.has_value()) return left.has_value();
    if (!left || *left == *right) continue;
    return ordering.ascending ? *left < *right : *right < *left;
  }
  return false;
}

}  // namespace lockstep::mlflow
