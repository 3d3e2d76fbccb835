// The query line of runs (docs/design/run-query.md): its words as terms, a sort and a group.
// web/src/query/parse.ts reads the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::run_query {

inline constexpr std::size_t kQueryBytesMax = 4000;
inline constexpr std::size_t kTermsMax = 20;

enum class Operator { is_one_of, equal, unequal, less, at_most, greater, at_least };

struct Term {
  bool negated = false;
  std::string field{};  // empty: a word, which is looked for in the texts of a run
  Operator is = Operator::is_one_of;
  std::string value{};

  bool operator==(const Term&) const = default;
};

struct Sort {
  std::string field{};
  bool descending = false;

  bool operator==(const Sort&) const = default;
};

struct Query {
  std::vector<Term> terms{};
  std::optional<Sort> sort{};
  std::optional<std::string> group{};  // the field whose values make the groups
};

// Code::invalid: a word that cannot be understood, or too many.
Result<Query> parse_query(std::string_view line);

// <, <=, > or >=.
bool is_comparison(Operator is);

// A name of another one is a metric or a setting.
bool is_field(std::string_view name);
// submitted, started or ended.
bool is_time(std::string_view name);
// The key of tag.KEY.
std::optional<std::string_view> tag_of(std::string_view name);

// 2026-11-01, 2026-11-01T12:00Z, or -7d: seven days before now. None: it is no such text.
std::optional<Time> time_of(std::string_view value, Time now);

}  // namespace lockstep::run_query
