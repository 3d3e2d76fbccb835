#include "platform/store/detail/run_start.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "platform/store/detail/run_conditions.h"
#include "platform/store/detail/run_order.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::store::detail {
namespace {

using run_query::is_comparison;
using run_query::Operator;
using run_query::Term;

struct Lookup {
  std::string sql{};
  std::vector<SqlValue> values{};
};

std::string_view sql_comparison(Operator is) {
  switch (is) {
    case Operator::less:
      return "<";
    case Operator::at_most:
      return "<=";
    case Operator::greater:
      return ">";
    default:
      return ">=";
  }
}

// The condition on `value`, which is a number or the key of a text, and texts are after numbers.
// Its parameters have no names, since by_name() has it twice.
std::optional<Lookup> on_value(const Term& term) {
  const auto number = run_query::query_number(term.value);
  if (is_comparison(term.is) && number)
    return Lookup{format("value {} ? and value <= ?", sql_comparison(term.is)),
                  {sql_real(*number), sql_real(std::numeric_limits<double>::infinity())}};
  if (term.is != Operator::equal || run_query::lower_case(term.value) == "nan") return std::nullopt;
  const auto key = sql_text(run_query::natural_key(term.value));
  if (!number) return Lookup{"value = ?", {key}};
  return Lookup{"value in (?, ?)", {sql_real(*number), key}};
}

std::optional<Lookup> by_name(const Term& term) {
  const auto condition = on_value(term);
  if (!condition || term.field == "command") return std::nullopt;
  Lookup lookup{format("select project, number from run_values indexed by run_values_by_value "
                       "where name = :name and value is not null and {}",
                       condition->sql),
                {sql_text(term.field)}};
  const auto add = [&lookup](const std::vector<SqlValue>& values) {
    lookup.values.insert(lookup.values.end(), values.begin(), values.end());
  };
  add(condition->values);
  if (is_fixed(term.field)) return lookup;
  lookup.sql += format(
      " union all select project, number from latest_metrics indexed by latest_by_value where "
      "name = :metric and {}",
      condition->sql);
  add({sql_text(term.field)});
  add(condition->values);
  return lookup;
}

std::optional<Lookup> by_state(const Term& term) {
  if (term.is != Operator::is_one_of && term.is != Operator::equal) return std::nullopt;
  std::vector<std::string> states;
  const std::string list = run_query::lower_case(term.value);
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    states.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return Lookup{format("select project, number from {} where {} in (select value from "
                       "json_each(:states))",
                       index_of_column("state"), indexed_column("state")),
                {sql_text(dump_json(to_json(states)))}};
}

std::optional<Lookup> by_column(const Term& term, Time now) {
  if (!is_comparison(term.is)) return std::nullopt;
  SqlValue bound;
  if (run_query::is_time(term.field)) {
    const auto time = run_query::time_of(term.value, now);
    if (!time) return std::nullopt;
    bound = sql_time(*time);
  } else {
    bound = sql_real(run_query::query_number(term.value).value_or(0));
  }
  return Lookup{
      format("select project, number from {} where {} {} :bound", index_of_column(term.field),
             indexed_column(term.field), sql_comparison(term.is)),
      {bound}};
}

std::optional<Lookup> lookup_of(const Term& term, Time now) {
  if (term.negated || term.field.empty()) return std::nullopt;
  if (term.field == "tag" || run_query::tag_of(term.field))
    return Lookup{"select project, number from runs indexed by runs_with_tags where tags <> '{}'",
                  {}};
  if (term.field == "state") return by_state(term);
  if (!indexed_column(term.field).empty()) return by_column(term, now);
  if (is_fixed(term.field) || !run_query::is_field(term.field)) return by_name(term);
  return std::nullopt;
}

Result<std::vector<model::RunId>> runs_of(Database& database, Lookup lookup, int most) {
  lookup.values.push_back(sql_integer(most));
  std::vector<model::RunId> runs;
  TRY(database.run(lookup.sql + " limit :most", lookup.values, {SqlType::text, SqlType::integer},
                   [&](std::vector<SqlValue>& row) -> Result<void> {
                     runs.push_back({std::move(row[0].text), row[1].integer});
                     return {};
                   }));
  return runs;
}

// A tag whose term is `!=` or a comparison selects runs without tags, too.
bool needs_tags(const Term& term) {
  return !run_query::tag_of(term.field) || term.is != Operator::unequal;
}

}  // namespace

Result<std::optional<std::vector<model::RunId>>> few_runs(Database& database,
                                                          const RunSelection& selection) {
  if (selection.filter.runs) return selection.filter.runs;
  for (const Term& term : selection.query.terms) {
    const auto lookup = needs_tags(term) ? lookup_of(term, selection.now) : std::nullopt;
    if (!lookup) continue;
    std::vector<model::RunId> runs = TRY(runs_of(database, *lookup, selection.looked_at_max + 1));
    if (std::ssize(runs) > selection.looked_at_max) continue;
    std::ranges::sort(runs);  // a metric and a setting may have the same name
    const auto [begin, end] = std::ranges::unique(runs);
    runs.erase(begin, end);
    return std::optional(std::move(runs));
  }
  return std::optional<std::vector<model::RunId>>();
}

}  // namespace lockstep::store::detail
