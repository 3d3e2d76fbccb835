#include "platform/store/detail/run_order.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/format.h"
#include "platform/store/detail/run_conditions.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::store::detail {
namespace {

struct IndexedColumn {
  std::string_view name, sql, index;
};
constexpr std::array<IndexedColumn, 5> kIndexedColumns = {
    {{"submitted", "submitted", "runs indexed by runs_by_submission"},
     {"started", "started", "runs indexed by runs_by_start"},
     {"ended", "ended", "runs indexed by runs_by_end"},
     {"priority", "priority", "runs indexed by runs_by_priority"},
     {"state", "query_state", "runs indexed by runs_by_state"}}};

constexpr std::array<std::string_view, 8> kFixed = {"name",  "user",    "command", "class",
                                                    "nodes", "devices", "timeout", "commit"};

// No run is left for the end of the list.
bool each_run_has(std::string_view name) {
  constexpr std::array<std::string_view, 4> kAlways = {"", "submitted", "state", "priority"};
  return std::ranges::find(kAlways, name) != kAlways.end();
}

// Those of whole numbers have them as such in their index.
SqlValue sql_key(const run_query::SortKey& key, bool whole) {
  if (const auto* words = std::get_if<std::string>(&key)) return sql_text(*words);
  const double number = std::get<double>(key);
  constexpr double kWholeMax = 9e18;
  const bool fits = number > -kWholeMax && number < kWholeMax;
  return whole && fits ? sql_integer(static_cast<std::int64_t>(number)) : sql_real(number);
}

void append(std::vector<SqlValue>& to, std::vector<SqlValue> values) {
  for (SqlValue& value : values) to.push_back(std::move(value));
}

}  // namespace

bool is_fixed(std::string_view name) { return std::ranges::find(kFixed, name) != kFixed.end(); }

std::string_view indexed_column(std::string_view name) {
  const auto* found = std::ranges::find(kIndexedColumns, name, &IndexedColumn::name);
  return found == kIndexedColumns.end() ? std::string_view() : found->sql;
}

std::string_view index_of_column(std::string_view name) {
  const auto* found = std::ranges::find(kIndexedColumns, name, &IndexedColumn::name);
  return found == kIndexedColumns.end() ? std::string_view() : found->index;
}

std::string RunOrder::text(const Place& place) const {
  const auto* words = std::get_if<std::string>(&place.key);
  const std::string key =
      words != nullptr ? "t" + *words
                       : format("{}{}", is_by_number() ? "#" : "n", std::get<double>(place.key));
  return dump_json(Json::array({place.is_last, key, place.run.project, place.run.number}));
}

Result<Place> RunOrder::parse_place(const std::string& words) const {
  const auto invalid = Error{Code::invalid, "after: it is no `next` of a list of these runs"};
  const auto parts = parse_json(words);
  if (!parts || !parts->is_array() || parts->size() != 4) return invalid;
  const Json& json = *parts;
  if (!json[0].is_boolean() || !json[1].is_string() || !json[2].is_string() ||
      !json[3].is_number_integer())
    return invalid;
  const auto key = json[1].get<std::string>();
  Place place{.is_last = json[0].get<bool>(),
              .run = {json[2].get<std::string>(), json[3].get<std::int64_t>()}};
  // The runs of one project are listed by their numbers, and a second one may have come since.
  if (key.starts_with('#') != is_by_number()) return invalid;
  if (key.starts_with('t')) {
    place.key = key.substr(1);
    return place;
  }
  double number = 0;
  const char* end = key.data() + key.size();
  if (!key.starts_with('n') && !key.starts_with('#')) return invalid;
  const auto [read, failed] = std::from_chars(key.data() + 1, end, number);
  if (failed != std::errc() || read != end || std::isnan(number)) return invalid;
  place.key = number;
  return place;
}

std::string RunOrder::field() const {
  return selection_.query.sort ? selection_.query.sort->field : "";
}
bool RunOrder::is_descending() const {
  return !selection_.query.sort || selection_.query.sort->descending;
}

// In a project that is the order of the submissions, and its key has it.
bool RunOrder::is_by_number() const { return field().empty() && selection_.filter.project; }

Result<void> RunOrder::check() const {
  const std::string name = field();
  const bool unsorted = run_query::is_field(name) && (!is_fixed(name) || name == "command") &&
                        indexed_column(name).empty();
  if (name.empty() || !unsorted) return {};
  return Error{Code::invalid,
               format("`sort:{}`: sort by a metric, a setting or one of submitted, started, ended, "
                      "name, state, user, class, nodes, devices, priority, timeout, commit",
                      name)};
}

Place RunOrder::place_of(const ReadRun& run) const {
  const auto submitted = static_cast<double>(run.submitted.time_since_epoch().count());
  if (is_by_number()) return {.key = static_cast<double>(run.run.number), .run = run.run};
  if (field().empty()) return {.key = submitted, .run = run.run};
  const auto key = run_query::sort_key(run_query::value_of(run.values, field()));
  if (!key) return {.is_last = true, .key = submitted, .run = run.run};
  return {.key = *key, .run = run.run};
}

bool RunOrder::is_before(const Place& a, const Place& b) const {
  if (a.is_last != b.is_last) return b.is_last;
  const auto order =
      std::tie(a.key, a.run.number, a.run.project) <=> std::tie(b.key, b.run.number, b.run.project);
  return a.is_last || is_descending() ? order > 0 : order < 0;
}

// They select the runs of the filter that come after the place. Its parameters have no names,
// since of_named() has it twice. The number is before the project, as in the indices: otherwise
// each call would sort all runs with the value of the place.
RunOrder::Part RunOrder::conditions(std::string_view value, const std::optional<Place>& after,
                                    bool down) const {
  Part part{.sql = format("{} is not null", value)};
  const auto add = [&part](std::string_view sql, std::vector<SqlValue> values) {
    part.sql += format(" and {}", sql);
    append(part.values, std::move(values));
  };
  const model::RunFilter& filter = selection_.filter;
  if (filter.project) add("project = ?", {sql_text(*filter.project)});
  if (filter.projects)
    add("project in (select value from json_each(?))",
        {sql_text(dump_json(to_json(*filter.projects)))});
  if (value == "submitted" && filter.since) add("submitted >= ?", {sql_time(*filter.since)});
  if (value == "submitted" && filter.until) add("submitted < ?", {sql_time(*filter.until)});
  if (after)
    add(format("({}, number, project) {} (?, ?, ?)", value, down ? "<" : ">"),
        {sql_key(after->key, value != "value"), sql_integer(after->run.number),
         sql_text(after->run.project)});
  return part;
}

RunOrder::Part RunOrder::of_column(std::string_view table, std::string_view value,
                                   const std::optional<Place>& after, bool down) const {
  Part part = conditions(value, after, down);
  part.sql = format(
      "select project, number, typeof({0}), {0}, {0} from {1} where {2} order by {0}{3}, "
      "number{3}, project{3}",
      value, table, part.sql, down ? " desc" : "");
  return part;
}

// A metric hides a setting of its name. Both indices are read in their order and merged.
RunOrder::Part RunOrder::of_named(const std::optional<Place>& after) const {
  const bool down = is_descending();
  const auto name = sql_text(field());
  const Part where = conditions("value", after, down);
  constexpr std::string_view kColumns = "project, number, typeof(value), value, value";
  Part part{.sql = format("select {} from run_values as v indexed by run_values_by_value where "
                          "name = :name and {}",
                          kColumns, where.sql),
            .values = {name}};
  append(part.values, where.values);
  if (!is_fixed(field())) {
    part.sql = format(
        "{} and not exists (select 1 from latest_metrics as m where m.project = v.project and "
        "m.number = v.number and m.name = v.name) union all select {} from latest_metrics indexed "
        "by latest_by_value where name = :metric and {}",
        part.sql, kColumns, where.sql);
    part.values.push_back(name);
    append(part.values, where.values);
  }
  part.sql += format(" order by 4{0}, 2{0}, 1{0}", down ? " desc" : "");
  return part;
}

RunOrder::Part RunOrder::newest(const std::optional<Place>& after) const {
  return of_column(index_of_column("submitted"), "submitted", after, true);
}

Result<void> RunOrder::read(const Part& part, bool is_last, int most, std::vector<Place>& places) {
  using enum SqlType;
  std::vector<SqlValue> values = part.values;
  values.push_back(sql_integer(most));
  return database_.run(part.sql + " limit :most", values, {text, integer, text, real, text},
                       [&](std::vector<SqlValue>& row) -> Result<void> {
                         Place place{.is_last = is_last,
                                     .run = {std::move(row[0].text), row[1].integer}};
                         if (row[2].text == "text")
                           place.key = std::move(row[4].text);
                         else
                           place.key = row[3].real;
                         places.push_back(std::move(place));
                         return {};
                       });
}

Result<std::vector<Place>> RunOrder::after(const std::optional<Place>& place, int most) {
  std::vector<Place> places;
  const std::string name = field();
  if (!place || !place->is_last) {
    Part part;
    if (is_by_number())
      part = of_column("runs", "number", place, true);
    else if (name.empty())
      part = newest(place);
    else if (const auto column = indexed_column(name); !column.empty())
      part = of_column(index_of_column(name), column, place, is_descending());
    else
      part = of_named(place);
    TRY(read(part, false, most, places));
  }
  if (each_run_has(name) || std::ssize(places) == most) return places;
  const auto last = place && place->is_last ? place : std::optional<Place>();
  TRY(read(newest(last), true, most - static_cast<int>(places.size()), places));
  return places;
}

}  // namespace lockstep::store::detail
