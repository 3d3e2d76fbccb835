#include "platform/store/detail/run_reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "platform/store/detail/run_conditions.h"
#include "platform/store/detail/run_order.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::store::detail {
namespace {

constexpr double kMicroseconds = 1e6;

run_query::Value value_of_column(const SqlValue& value) {
  if (value.null) return {};
  if (value.type == SqlType::text) return value.text;
  return value.type == SqlType::real ? value.real : static_cast<double>(value.integer);
}

bool is_number_field(std::string_view name) {
  return name == "nodes" || name == "devices" || name == "timeout";
}

run_query::Value value_of_setting(const SqlValue& text) {
  if (text.null) return {};
  if (const auto number = run_query::plain_number(text.text)) return *number;
  return text.text;
}

}  // namespace

RunReader::RunReader(Database& database, const RunSelection& selection)
    : database_(database), selection_(selection) {
  for (const auto* column : {"runs.project", "runs.state"}) add_column(column, SqlType::text);
  for (const auto* column :
       {"runs.number", "wanted.key", "runs.held is not null", "runs.submitted"})
    add_column(column, SqlType::integer);
  for (const std::string& name : run_query::names_in(selection.query)) add_name(name);
  if (run_query::has_words(selection.query)) add_words();
  if (run_query::has_tags(selection.query)) add_tags();
}

std::size_t RunReader::add_column(std::string sql, SqlType type) {
  columns_.push_back(std::move(sql));
  types_.push_back(type);
  return columns_.size() - 1;
}

void RunReader::add_row_field(const std::string& name, std::string sql, SqlType type) {
  const std::size_t at = add_column(std::move(sql), type);
  setters_.emplace_back([name, at](ReadRun& run, Row& row) {
    run.values.values.emplace(name, value_of_column(row[at]));
  });
}

void RunReader::add_use(const std::string& name, std::string column, double unit,
                        double LiveUse::* of_live_run) {
  const std::size_t at = add_column(std::move(column), SqlType::integer);
  setters_.emplace_back([this, name, at, unit, of_live_run](ReadRun& run, Row& row) {
    const auto live = selection_.live.find(run.run);
    const double value = live == selection_.live.end() ? static_cast<double>(row[at].integer) / unit
                                                       : live->second.*of_live_run;
    run.values.values.emplace(name, value);
  });
}

// The text of a row of run_values; null: none.
std::size_t RunReader::add_stored_value(const std::string& name) {
  const std::string table = format("v{}", tables_++);
  joins_ += format(
      " left join run_values as {0} on {0}.project = runs.project and {0}.number = runs.number and "
      "{0}.name = :{0}",
      table);
  join_values_.push_back(sql_text(name));
  return add_column(table + ".text", SqlType::text);
}

// A metric of the name hides the setting. The value of one that is NaN is null.
void RunReader::add_setting(const std::string& name) {
  const std::size_t setting = add_stored_value(name);
  const std::string table = format("m{}", tables_++);
  joins_ += format(
      " left join latest_metrics as {0} on {0}.project = runs.project and {0}.number = runs.number "
      "and {0}.name = :{0}",
      table);
  join_values_.push_back(sql_text(name));
  const std::size_t logged = add_column(table + ".name is not null", SqlType::integer);
  const std::size_t metric = add_column(table + ".value", SqlType::real);
  setters_.emplace_back([name, setting, logged, metric](ReadRun& run, Row& row) {
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    if (row[logged].integer != 0)
      run.values.values.emplace(name, row[metric].null ? kNaN : row[metric].real);
    else
      run.values.values.emplace(name, value_of_setting(row[setting]));
  });
}

std::string RunReader::reason_of(const model::RunId& run, const std::string& stored) const {
  const auto waiting = selection_.wait_reasons.find(run);
  const std::string& reason = waiting == selection_.wait_reasons.end() ? stored : waiting->second;
  return selection_.readable_reason ? selection_.readable_reason(reason) : reason;
}

void RunReader::add_reason() {
  const std::size_t at = add_column("runs.reason", SqlType::text);
  setters_.emplace_back([this, at](ReadRun& run, Row& row) {
    run.values.values.emplace("reason", reason_of(run.run, row[at].text));
  });
}

void RunReader::add_name(const std::string& name) {
  constexpr auto kText = SqlType::text;
  if (name == "id") {
    setters_.emplace_back(
        [](ReadRun& run, Row&) { run.values.values.emplace("id", text(run.run)); });
    return;
  }
  if (name == "state") {
    setters_.emplace_back(
        [](ReadRun& run, Row&) { run.values.values.emplace("state", run.state); });
    return;
  }
  if (name == "project") return add_row_field(name, "runs.project", kText);
  if (name == "reason") return add_reason();
  if (name == "note") return add_row_field(name, "runs.note", kText);
  if (name == "priority" || run_query::is_time(name))
    return add_row_field(name, "runs." + name, SqlType::integer);
  if (name == "running")
    return add_use(name, "runs.time_used", kMicroseconds, &LiveUse::running_seconds);
  if (name == "cost")
    return add_use(name, "runs.charged", 60 * kMicroseconds, &LiveUse::cost_minutes);
  if (name == "host")
    return add_row_field(
        name,
        "(select group_concat(host, ' ') from nodes as n where n.project = runs.project and "
        "n.number = runs.number and n.epoch = runs.epoch)",
        kText);
  if (name == "step" || name == "progress") {
    const std::string table = format("p{}", tables_++);
    joins_ += format(
        " left join progress as {0} on {0}.project = runs.project and {0}.number = runs.number",
        table);
    if (name == "step") return add_row_field(name, table + ".step", SqlType::integer);
    return add_row_field(name, format("1.0 * {0}.step / nullif({0}.steps, 0)", table),
                         SqlType::real);
  }
  if (!is_fixed(name)) return add_setting(name);
  const std::size_t at = add_stored_value(name);
  setters_.emplace_back([name, at](ReadRun& run, Row& row) {
    run.values.values.emplace(
        name, is_number_field(name) ? value_of_setting(row[at]) : value_of_column(row[at]));
  });
}

void RunReader::add_words() {
  const std::array<std::size_t, 3> parts = {add_stored_value("name"), add_stored_value("user"),
                                            add_stored_value("command")};
  const std::size_t reason = add_column("runs.reason", SqlType::text);
  setters_.emplace_back([this, parts, reason](ReadRun& run, Row& row) {
    std::string words = text(run.run);
    for (const std::size_t part : parts) words += "\n" + row[part].text;
    words += "\n" + reason_of(run.run, row[reason].text);
    run.values.words = run_query::lower_case(words);
  });
}

void RunReader::add_tags() {
  const std::size_t at = add_column("runs.tags", SqlType::text);
  setters_.emplace_back([at](ReadRun& run, Row& row) {
    if (row[at].text == "{}") return;
    const auto tags = parse_json(row[at].text);
    auto read = tags ? from_json<model::Tags>(*tags) : tags.error();
    if (read) run.values.tags = *std::move(read);
  });
}

Result<std::vector<ReadRun>> RunReader::read(const std::vector<model::RunId>& ids) {
  model::RunFilter filter = selection_.filter;
  filter.runs = ids;
  RunConditions conditions(filter);
  std::vector<SqlValue> values = std::move(conditions.values());
  values.insert(values.begin() + 1, join_values_.begin(), join_values_.end());
  const std::string statement =
      format("select {} from {}{}{}{}", joined(columns_, ", "), kNamedRuns, joins_,
             conditions.sql().empty() ? "" : " where ", conditions.sql());
  std::vector<std::pair<std::int64_t, ReadRun>> found;
  TRY(database_.run(statement, values, types_, [&](Row& row) -> Result<void> {
    ReadRun run{.run = {row[0].text, row[2].integer},
                .state = row[4].integer != 0 && row[1].text == "queued" ? "held" : row[1].text,
                .submitted = Time(Duration(row[5].integer))};
    for (const auto& set : setters_) set(run, row);
    found.emplace_back(row[3].integer, std::move(run));
    return {};
  }));
  std::ranges::sort(found, {}, &std::pair<std::int64_t, ReadRun>::first);
  std::vector<ReadRun> runs;
  for (auto& [place, run] : found) runs.push_back(std::move(run));
  return runs;
}

}  // namespace lockstep::store::detail
