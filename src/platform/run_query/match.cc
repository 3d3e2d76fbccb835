#include "platform/run_query/match.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace lockstep::run_query {
namespace {

bool has_tag(const RunValues& run, std::string_view wanted) {
  const std::size_t equals = wanted.find('=');
  const auto tag = run.tags.find(std::string(wanted.substr(0, equals)));
  if (tag == run.tags.end()) return false;
  return equals == std::string_view::npos || tag->second == wanted.substr(equals + 1);
}

bool equals(const Value& value, std::string_view wanted) {
  if (const auto* words = std::get_if<std::string>(&value))
    return lower_case(*words) == lower_case(wanted);
  const auto* number = std::get_if<double>(&value);
  if (number == nullptr) return false;
  if (lower_case(wanted) == "nan") return std::isnan(*number);
  return query_number(wanted) == *number;
}

bool has_part(const Value& value, const std::string& wanted) {
  return lower_case(std::get<std::string>(value)).find(wanted) != std::string::npos;
}

// One of several, with commas between them.
bool is_one_of(const Value& value, const Term& term) {
  const bool whole =
      term.field == "state" || term.field == "class" || !std::holds_alternative<std::string>(value);
  const std::string list = lower_case(term.value);
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string wanted = list.substr(begin, end - begin);
    if (whole ? equals(value, wanted) : has_part(value, wanted)) return true;
    begin = end + 1;
  }
  return false;
}

// Times are microseconds since 1970, which a double has exactly.
std::optional<double> bound_of(const Term& term, Time now) {
  if (!is_time(term.field)) return query_number(term.value);
  const auto time = time_of(term.value, now);
  if (!time) return std::nullopt;
  return static_cast<double>(time->time_since_epoch().count());
}

bool compares(const Value& value, const Term& term, Time now) {
  const auto* number = std::get_if<double>(&value);
  const auto bound = bound_of(term, now);
  if (number == nullptr || !bound) return false;
  switch (term.is) {
    case Operator::less:
      return *number < *bound;
    case Operator::at_most:
      return *number <= *bound;
    case Operator::greater:
      return *number > *bound;
    default:
      return *number >= *bound;
  }
}

bool holds(const RunValues& run, const Term& term, Time now) {
  if (term.field.empty()) return run.words.find(lower_case(term.value)) != std::string::npos;
  if (term.field == "tag") return has_tag(run, term.value);
  const Value value = value_of(run, term.field);
  switch (term.is) {
    case Operator::is_one_of:
      return is_one_of(value, term);
    case Operator::equal:
      return equals(value, term.value);
    case Operator::unequal:
      return !equals(value, term.value);
    default:
      return compares(value, term, now);
  }
}

// A term `tag:KEY` asks for a tag. In sort and group, `tag` is a setting of that name.
bool asks_for_tag(const Term& term) { return term.field == "tag" || tag_of(term.field); }

template <class Visit>
void for_each_name(const Query& query, Visit&& visit) {
  for (const Term& term : query.terms)
    if (!term.field.empty() && !asks_for_tag(term)) visit(term.field);
  if (query.sort) visit(query.sort->field);
  if (query.group) visit(*query.group);
}

}  // namespace

std::set<std::string> names_in(const Query& query) {
  std::set<std::string> names;
  for_each_name(query, [&](const std::string& name) {
    if (!tag_of(name)) names.insert(name);
  });
  return names;
}

bool has_words(const Query& query) {
  return std::ranges::any_of(query.terms, [](const Term& term) { return term.field.empty(); });
}

bool has_tags(const Query& query) {
  bool found = std::ranges::any_of(query.terms, asks_for_tag);
  for_each_name(query, [&](const std::string& name) { found |= tag_of(name).has_value(); });
  return found;
}

Value value_of(const RunValues& run, const std::string& name) {
  if (const auto key = tag_of(name)) {
    const auto tag = run.tags.find(std::string(*key));
    return tag == run.tags.end() ? Value() : Value(tag->second);
  }
  const auto value = run.values.find(name);
  return value == run.values.end() ? Value() : value->second;
}

bool matches(const RunValues& run, const Term& term, Time now) {
  return holds(run, term, now) != term.negated;
}

bool matches(const RunValues& run, const Query& query, Time now) {
  return std::ranges::all_of(query.terms,
                             [&](const Term& term) { return matches(run, term, now); });
}

}  // namespace lockstep::run_query
