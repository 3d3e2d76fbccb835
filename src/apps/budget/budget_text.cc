#include "apps/budget/budget_text.h"

#include <algorithm>
#include <cmath>

#include "apps/cli/terminal.h"
#include "apps/run/run_display.h"
#include "base/format.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

using Row = TextRow;

std::string date_text(Time time) {
  return text(Time(std::chrono::floor<std::chrono::days>(time))).substr(0, 10);
}

std::string moment_text(Time time) {
  return text(Time(std::chrono::floor<std::chrono::seconds>(time)));
}

std::string account_text(budget::Account account, const std::string& project) {
  return account == budget::Account::bank ? "bank" : format("{} of {}", name_of(account), project);
}

}  // namespace

std::string minutes_text(double minutes) {
  const double rounded = std::round(minutes * 100) / 100;
  return rounded == std::floor(rounded) ? format("{:.0f}", rounded) : format("{:.2f}", rounded);
}

std::string buckets_text(const std::vector<api::BucketView>& buckets) {
  Table table({"PERSONAL PROJECT", "AVAILABLE", "HELD", "SPENT", "AT MOST", "PER HOUR"});
  for (const api::BucketView& bucket : buckets)
    table.add({bucket.project, minutes_text(bucket.available_minutes),
               minutes_text(bucket.held_minutes), minutes_text(bucket.spent_minutes),
               minutes_text(bucket.cap_minutes), minutes_text(bucket.minutes_per_hour)});
  return fit_to_terminal(table);
}

std::string budgets_text(const api::BudgetList& list) {
  if (list.budgets.empty() && !list.buckets.empty()) return buckets_text(list.buckets);
  if (list.budgets.empty())
    return "no project has a budget, so no run is limited by one; `lockstep budget grant PROJECT "
           "MINUTES --until DATE` makes one";
  Table table({"PROJECT", "AVAILABLE", "HELD", "SPENT", "USED", "NEXT END"});
  std::string warnings;
  for (const api::BudgetView& budget : list.budgets) {
    table.add({budget.project,
               budget.limited ? minutes_text(budget.available_minutes) : "not limited",
               minutes_text(budget.held_minutes), minutes_text(budget.spent_minutes),
               format("{}%", budget.used_percent),
               budget.grants.empty() ? "-" : date_text(budget.grants.front().ends)});
    if (!budget.warning.empty()) warnings += "\n" + budget.warning;
  }
  for (const api::RateView& rate : list.rates)
    warnings += format("\na device of kind {} counts {} times", rate.kind, rate.weight);
  const std::string buckets = list.buckets.empty() ? "" : "\n" + buckets_text(list.buckets);
  return fit_to_terminal(table) + warnings + buckets;
}

std::string forecast_text(const api::BudgetList& list) {
  Table table({"PROJECT", "AVAILABLE", "PER DAY", "RUNS OUT"});
  for (const api::BudgetView& budget : list.budgets)
    table.add({budget.project, minutes_text(budget.available_minutes),
               minutes_text(budget.minutes_per_day),
               budget.runs_out ? date_text(*budget.runs_out) : "not before its end"});
  if (table.empty()) return "no project has a budget";
  return fit_to_terminal(table);
}

std::string postings_text(const api::PostingList& list, std::string_view project, TextForm form) {
  if (list.postings.empty() && form == TextForm::table)
    return format("the project {} never had a budget", project);
  std::vector<Row> rows;
  for (const api::PostingView& posting : list.postings)
    rows.push_back({moment_text(posting.time), std::string(name_of(posting.kind)),
                    minutes_text(posting.minutes), account_text(posting.from, posting.from_project),
                    account_text(posting.to, posting.to_project),
                    posting.by.empty() ? "-" : posting.by,
                    posting.attempt.empty() ? posting.reason : posting.attempt});
  return rows_text({"TIME", "WHAT", "MINUTES", "FROM", "TO", "BY", "WHY"}, rows, form);
}

std::string usage_text(const api::UsageList& list, const std::vector<std::string>& columns,
                       TextForm form) {
  if (list.rows.empty() && form == TextForm::table) return "no device was used in that time";
  Row header = columns;
  for (std::string& word : header) std::ranges::transform(word, word.begin(), ::toupper);
  for (const char* word : {"ATTEMPTS", "USED", "CHARGED"}) header.emplace_back(word);
  std::vector<Row> rows;
  for (const api::UsageView& each : list.rows) {
    Row& row = rows.emplace_back();
    for (const std::string& column : columns)
      row.push_back(column == "project" ? each.project
                    : column == "user"  ? each.user
                    : column == "month" ? each.month
                                        : each.kind);
    row.push_back(format("{}", each.attempts));
    row.push_back(minutes_text(each.used_minutes));
    row.push_back(minutes_text(each.charged_minutes));
  }
  return rows_text(header, rows, form);
}

std::string device_use_text(const api::DeviceUseList& list, const std::vector<std::string>& columns,
                            TextForm form) {
  if (list.rows.empty() && form == TextForm::table) return "no run has reported its use of devices";
  // A missing number is unknown, and not 0.
  const auto number = [&](std::optional<double> value) {
    if (!value) return std::string(form == TextForm::csv ? "" : "unknown");
    return format("{:.3f}", *value);
  };
  Row header = columns;
  for (std::string& word : header) std::ranges::transform(word, word.begin(), ::toupper);
  for (const char* word : {"DEVICE_KWH", "HOST_KWH", "MINUTES", "IDLE", "TFLOPS", "MFU_PERCENT"})
    header.emplace_back(word);
  std::vector<Row> rows;
  for (const api::DeviceUseView& each : list.rows) {
    Row& row = rows.emplace_back();
    for (const std::string& column : columns)
      row.push_back(column == "project" ? each.project
                    : column == "user"  ? each.user
                    : column == "run"   ? each.run
                                        : each.month);
    const auto teraflops = each.flops ? std::optional(*each.flops / 1e12) : std::nullopt;
    for (const auto& value : {each.device_kwh, each.host_kwh, each.device_minutes,
                              each.idle_minutes, teraflops, each.flops_utilization_percent})
      row.push_back(number(value));
  }
  return rows_text(header, rows, form);
}

}  // namespace lockstep::cli
