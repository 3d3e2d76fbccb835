#include "platform/insight/device_use.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "base/format.h"
#include "text/convert.h"
#include "text/json.h"
#include "text/record.h"

namespace lockstep::insight {
namespace {

using spool::TelemetryItem;
using spool::TelemetryKind;
using store::SqlType;
using store::SqlValue;

constexpr double kIdlePercent = 5;
// Between two readings further apart the power is unknown.
constexpr Duration kGap = std::chrono::seconds(10);

// The last reading of a device, or of the host.
struct UseMark {
  Time time{};
  std::optional<double> joules{};  // of its counter

  static constexpr auto fields() {
    return record<UseMark>(field("time", &UseMark::time, "of the reading"),
                           field("joules", &UseMark::joules, "of its counter"));
  }
};
using UseMarks = std::map<std::string, UseMark>;

// The readings of one device, or of the host.
struct DeviceReadings {
  std::optional<double> watts{}, joules{}, utilization{};
};

void add(std::optional<double>& sum, double value) { sum = sum.value_or(0) + value; }

// By device: "device0"; and "host", whose power is that of processors and memory.
std::map<std::string, DeviceReadings> readings_of(const TelemetryItem& item) {
  std::map<std::string, DeviceReadings> readings;
  for (const auto& [name, value] : item.values) {
    if (!std::isfinite(value) || value < 0) continue;
    const std::size_t slash = name.find('/');
    const std::string part = name.substr(0, slash);
    const std::string metric = slash == std::string::npos ? "" : name.substr(slash + 1);
    if (part == "cpu" && metric.ends_with("power_watts")) add(readings["host"].watts, value);
    if (!part.starts_with("device")) continue;
    if (metric == "power_watts") readings[part].watts = value;
    if (metric == "energy_joules_total") readings[part].joules = value;
    if (metric == "utilization_percent") readings[part].utilization = value;
  }
  return readings;
}

// The energy since the last reading: by the counter across any gap, else by the power.
std::optional<double> joules_since(const UseMark& last, const DeviceReadings& now,
                                   Duration passed) {
  if (last.joules && now.joules && *now.joules >= *last.joules) return *now.joules - *last.joules;
  if (now.watts && passed <= kGap) return *now.watts * in_seconds(passed);
  return std::nullopt;
}

void add_telemetry(const TelemetryItem& item, double host_share, UseMarks& marks, DeviceUse& use) {
  for (const auto& [part, now] : readings_of(item)) {
    UseMark& last = marks[part];
    const Duration passed = item.time - last.time;
    if (passed <= Duration(0)) continue;
    const bool is_host = part == "host";
    if (const auto joules = joules_since(last, now, passed))
      add(is_host ? use.host_joules : use.device_joules, is_host ? *joules * host_share : *joules);
    if (!is_host && now.utilization && passed <= kGap) {
      add(use.device_seconds, in_seconds(passed));
      add(use.idle_seconds, *now.utilization < kIdlePercent ? in_seconds(passed) : 0);
    }
    last = {item.time, now.joules ? now.joules : last.joules};
  }
}

void add_flops(const TelemetryItem& item, DeviceUse& use) {
  const auto value = [&](const char* name) -> std::optional<double> {
    const auto found = item.values.find(name);
    if (found == item.values.end() || !std::isfinite(found->second) || found->second < 0)
      return std::nullopt;
    return found->second;
  };
  const auto flops = value("flops"), possible = value("flops_possible");
  if (!flops) return;
  add(use.flops, *flops);
  if (!possible) return;
  add(use.flops_timed, *flops);
  add(use.flops_possible, *possible);
}

std::string month_of(Time time) {
  const std::chrono::year_month_day day(std::chrono::floor<std::chrono::days>(time));
  return format("{:04}-{:02}", static_cast<int>(day.year()), static_cast<unsigned>(day.month()));
}

Result<UseMarks> marks_of(store::Database& database, const model::NodeId& node) {
  const auto& [attempt, index] = node;
  const auto found = TRY(database.rows<std::string>(
      "select marks from use_marks where project = :project and number = :number and epoch = "
      ":epoch and node = :node",
      attempt.run.project, attempt.run.number, attempt.epoch, index));
  if (found.empty()) return UseMarks{};
  return from_json<UseMarks>(TRY(parse_json(std::get<0>(found.front()))));
}

Result<void> save_marks(store::Database& database, const model::NodeId& node,
                        const UseMarks& marks) {
  const auto& [attempt, index] = node;
  return database.execute(
      "insert into use_marks (project, number, epoch, node, marks) values (:project, :number, "
      ":epoch, :node, :marks) on conflict do update set marks = excluded.marks",
      attempt.run.project, attempt.run.number, attempt.epoch, index, dump_json(to_json(marks)));
}

// An unknown part leaves the sum as it is.
Result<void> add_to_month(store::Database& database, const model::RunId& run,
                          const std::string& month, const DeviceUse& use) {
  constexpr std::string_view kSql =
      "insert into use_months (month, project, number, user, device_joules, host_joules, "
      "device_seconds, idle_seconds, flops, flops_timed, flops_possible) values (:month, :project, "
      ":number, coalesce((select origin ->> 'user' from runs where project = :p and number = :n), "
      "''), :device_joules, :host_joules, :device_seconds, :idle_seconds, :flops, :flops_timed, "
      ":flops_possible) on conflict do update set "
      "device_joules = coalesce(device_joules + excluded.device_joules, device_joules, "
      "excluded.device_joules), host_joules = coalesce(host_joules + excluded.host_joules, "
      "host_joules, excluded.host_joules), device_seconds = coalesce(device_seconds + "
      "excluded.device_seconds, device_seconds, excluded.device_seconds), idle_seconds = "
      "coalesce(idle_seconds + excluded.idle_seconds, idle_seconds, excluded.idle_seconds), flops "
      "= coalesce(flops + excluded.flops, flops, excluded.flops), flops_timed = "
      "coalesce(flops_timed + excluded.flops_timed, flops_timed, excluded.flops_timed), "
      "flops_possible = coalesce(flops_possible + excluded.flops_possible, flops_possible, "
      "excluded.flops_possible)";
  return database.execute(kSql, month, run.project, run.number, run.project, run.number,
                          use.device_joules, use.host_joules, use.device_seconds, use.idle_seconds,
                          use.flops, use.flops_timed, use.flops_possible);
}

SqlValue text_of(std::string words) { return {.type = SqlType::text, .text = std::move(words)}; }

std::string column_of(const UseFilter& filter, UseColumn column) {
  if (std::ranges::find(filter.by, column) == filter.by.end()) return "''";
  if (column == UseColumn::run) return "project || '/' || number";
  return std::string(name_of(column));
}

std::optional<double> known(const SqlValue& value) {
  return value.null ? std::nullopt : std::optional(value.real);
}

}  // namespace

Result<void> add_device_use(store::Database& database, const model::NodeId& node,
                            std::span<const TelemetryItem> items, double host_share) {
  const auto has_use = [](const TelemetryItem& item) {
    return item.kind == TelemetryKind::telemetry ||
           (item.kind == TelemetryKind::metrics && item.values.contains("flops"));
  };
  if (std::ranges::none_of(items, has_use)) return {};
  UseMarks marks = TRY(marks_of(database, node));
  std::map<std::string, DeviceUse> months;
  for (const TelemetryItem& item : items) {
    if (!has_use(item)) continue;
    DeviceUse& use = months[month_of(item.time)];
    if (item.kind == TelemetryKind::metrics) add_flops(item, use);
    if (item.kind == TelemetryKind::telemetry) add_telemetry(item, host_share, marks, use);
  }
  for (const auto& [month, use] : months)
    if (use != DeviceUse{}) TRY(add_to_month(database, node.attempt.run, month, use));
  return marks.empty() ? Result<void>() : save_marks(database, node, marks);
}

Result<std::vector<UseSum>> device_use(store::Database& database, const UseFilter& filter) {
  using enum SqlType;
  std::string condition = "1";
  std::vector<SqlValue> values;
  const auto add_condition = [&](std::string_view sql, SqlValue value) {
    condition += sql;
    values.push_back(std::move(value));
  };
  if (filter.projects)
    add_condition(" and project in (select value from json_each(:projects))",
                  text_of(dump_json(to_json(*filter.projects))));
  if (filter.run) add_condition(" and number = :number", {.integer = filter.run->number});
  if (filter.user) add_condition(" and user = :user", text_of(*filter.user));
  if (filter.month) add_condition(" and month = :month", text_of(*filter.month));
  const std::string sql = format(
      "select {} as p, {} as u, {} as r, {} as m, count(*), sum(device_joules), sum(host_joules), "
      "sum(device_seconds), sum(idle_seconds), sum(flops), sum(flops_timed), sum(flops_possible) "
      "from use_months where {} group by p, u, r, m order by p, u, {} m",
      column_of(filter, UseColumn::project), column_of(filter, UseColumn::user),
      column_of(filter, UseColumn::run), column_of(filter, UseColumn::month), condition,
      column_of(filter, UseColumn::run) == "''" ? "" : "number,");
  std::vector<UseSum> sums;
  TRY(database.run(sql, values,
                   {text, text, text, text, integer, real, real, real, real, real, real, real},
                   [&](std::vector<SqlValue>& row) -> Result<void> {
                     if (row[4].integer == 0) return {};  // no row at all, without a column
                     sums.push_back({.project = std::move(row[0].text),
                                     .user = std::move(row[1].text),
                                     .run = std::move(row[2].text),
                                     .month = std::move(row[3].text),
                                     .use = {.device_joules = known(row[5]),
                                             .host_joules = known(row[6]),
                                             .device_seconds = known(row[7]),
                                             .idle_seconds = known(row[8]),
                                             .flops = known(row[9]),
                                             .flops_timed = known(row[10]),
                                             .flops_possible = known(row[11])}});
                     return {};
                   }));
  return sums;
}

}  // namespace lockstep::insight
