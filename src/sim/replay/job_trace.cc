#include "sim/replay/job_trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/format.h"
#include "text/csv.h"

namespace lockstep::sim {
namespace {

enum class TimeFormat { date_and_time, seconds };
enum class RowOrder { any, by_time };

struct TraceFormat {
  std::string_view submitted, duration, devices;  // columns
  TimeFormat time;
  RowOrder order;
};

constexpr std::array kForms = {
    // Microsoft's Philly trace as Pollux published it.
    TraceFormat{"timestamp", "duration", "num_gpus", TimeFormat::date_and_time, RowOrder::any},
    // The format that `lockstep sim --schedule` writes, and the simplest to produce.
    TraceFormat{"submitted", "duration", "devices", TimeFormat::seconds, RowOrder::by_time},
};

constexpr double kDurationMax = 10.0 * 365 * 86'400;  // seconds
constexpr double kTimeMax = 100.0 * 365 * 86'400;     // seconds
constexpr double kDevicesMax = 1'000'000;

std::string_view example_of(TimeFormat form) {
  return form == TimeFormat::seconds ? "seconds such as 3600"
                                     : "a time such as 2017-10-09 07:01:55";
}

// One value of a row, with the data for its error message.
struct Cell {
  const CsvReader& csv;
  const CsvRow& row;
  std::string_view column;
  std::string_view value;

  Error error(std::string_view expected) const {
    return {Code::invalid, format("{}:{}: column '{}': '{}' is not {}; correct or remove the row",
                                  csv.name(), row.line, column, value, expected)};
  }
};

std::optional<double> decimal(std::string_view words) {
  double number = 0;
  const char* end = words.data() + words.size();
  const auto [stop, error] = std::from_chars(words.data(), end, number);
  if (error != std::errc() || stop != end || !std::isfinite(number)) return std::nullopt;
  return number;
}

Result<std::int64_t> number_between(const Cell& cell, double least, double most,
                                    std::string_view expected) {
  const auto number = decimal(cell.value);
  if (!number || *number < least || *number > most) return cell.error(expected);
  return static_cast<std::int64_t>(*number);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The number that the digits of words[from, from + length) write.
int digits_at(std::string_view words, std::size_t from, std::size_t length) {
  int number = 0;
  for (std::size_t i = from; i < from + length; ++i) number = number * 10 + (words[i] - '0');
  return number;
}

// "2017-10-09 07:01:55", as seconds since 1970.
std::optional<Seconds> date_and_time(std::string_view words) {
  constexpr std::string_view kPattern = "....-..-.. ..:..:..";
  if (words.size() != kPattern.size()) return std::nullopt;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (kPattern[i] == '.' ? !is_digit(words[i]) : kPattern[i] != words[i]) return std::nullopt;
  const int year = digits_at(words, 0, 4), month = digits_at(words, 5, 2),
            day = digits_at(words, 8, 2), hour = digits_at(words, 11, 2),
            minute = digits_at(words, 14, 2), second = digits_at(words, 17, 2);
  const std::chrono::year_month_day date(std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  if (!date.ok() || hour > 23 || minute > 59 || second > 59) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(hour) +
         std::chrono::minutes(minute) + Seconds(second);
}

Result<Seconds> read_time(const Cell& cell, TimeFormat form) {
  const std::string_view expected = example_of(form);
  if (form == TimeFormat::seconds) return Seconds(TRY(number_between(cell, 0, kTimeMax, expected)));
  const auto time = date_and_time(cell.value);
  if (!time) return cell.error(expected);
  return *time;
}

bool has(const CsvReader& csv, std::string_view column) {
  return std::ranges::find(csv.header(), column) != csv.header().end();
}

std::array<std::string_view, 3> columns_of(const TraceFormat& form) {
  return {form.submitted, form.duration, form.devices};
}

std::vector<std::string_view> missing(const CsvReader& csv, const TraceFormat& form) {
  std::vector<std::string_view> names;
  for (const std::string_view column : columns_of(form))
    if (!has(csv, column)) names.push_back(column);
  return names;
}

// The format whose columns are all present; else the error names the missing columns of the closest
// one.
Result<TraceFormat> format_of(const CsvReader& csv) {
  const TraceFormat& nearest_form = *std::ranges::min_element(
      kForms, {}, [&](const TraceFormat& form) { return missing(csv, form).size(); });
  const auto lacks = missing(csv, nearest_form);
  if (lacks.empty()) return nearest_form;
  return Error{Code::invalid,
               format("{}:1: the header lacks '{}'; name the columns '{}', or see `lockstep help "
                      "sim` for other forms",
                      csv.name(), joined(lacks, "', '"), joined(columns_of(nearest_form), "', '"))};
}

std::size_t index_of(const CsvReader& csv, std::string_view column) {
  return static_cast<std::size_t>(std::ranges::find(csv.header(), column) - csv.header().begin());
}

class JobReader {
 public:
  JobReader(const CsvReader& csv, const TraceFormat& form)
      : csv_(csv),
        format_(form),
        submitted_(index_of(csv, form.submitted)),
        duration_(index_of(csv, form.duration)),
        devices_(index_of(csv, form.devices)) {}

  Result<Job> read(const CsvRow& row) const {
    Job job{.line = row.line};
    job.submitted = TRY(read_time(cell(row, submitted_), format_.time));
    job.duration = Seconds(TRY(number_between(cell(row, duration_), 1, kDurationMax,
                                              "a number of seconds from 1 to ten years")));
    const Cell devices = cell(row, devices_);
    constexpr std::string_view kExpected = "a whole number of devices from 1 to 1000000";
    const auto number = decimal(devices.value);
    if (!number || *number < 1 || *number > kDevicesMax || std::trunc(*number) != *number)
      return devices.error(kExpected);
    job.devices = static_cast<int>(*number);
    return job;
  }

  Result<void> check_order(const Job& earlier, const Job& later, const CsvRow& row) const {
    if (format_.order == RowOrder::any || earlier.submitted <= later.submitted) return {};
    const Cell at = cell(row, submitted_);
    return Error{Code::invalid,
                 format("{}:{}: column '{}': {} comes after {}; sort the rows by this column",
                        csv_.name(), row.line, at.column, at.value, earlier.submitted.count())};
  }

 private:
  Cell cell(const CsvRow& row, std::size_t column) const {
    return {csv_, row, csv_.header()[column], row.fields[column]};
  }

  const CsvReader& csv_;
  const TraceFormat format_;
  const std::size_t submitted_, duration_, devices_;
};

void rebase_times(std::vector<Job>& jobs) {
  const auto earlier = [](const Job& a, const Job& b) {
    return std::pair(a.submitted, a.line) < std::pair(b.submitted, b.line);
  };
  std::ranges::sort(jobs, earlier);
  const Seconds first = jobs.front().submitted;
  for (Job& job : jobs) job.submitted -= first;
}

}  // namespace

Result<JobTrace> parse_job_trace(std::string_view words, std::string_view name) {
  CsvReader csv = TRY(CsvReader::open(words, name));
  const JobReader reader(csv, TRY(format_of(csv)));
  JobTrace trace{.name = std::string(name), .jobs = {}};
  while (const CsvRow* row = TRY(csv.next())) {
    const Job job = TRY(reader.read(*row));
    if (!trace.jobs.empty()) TRY(reader.check_order(trace.jobs.back(), job, *row));
    trace.jobs.push_back(job);
  }
  if (trace.jobs.empty())
    return Error{Code::invalid, format("{}: there is no job below the header; add a row", name)};
  rebase_times(trace.jobs);
  return trace;
}

Result<JobTrace> half_of(const JobTrace& trace, Half half) {
  const auto middle = std::ranges::lower_bound(trace.jobs, trace.window() / 2, {}, &Job::submitted);
  JobTrace part{.name = trace.name, .jobs = {}};
  if (half == Half::first)
    part.jobs.assign(trace.jobs.begin(), middle);
  else
    part.jobs.assign(middle, trace.jobs.end());
  if (part.jobs.empty())
    return Error{Code::invalid,
                 format("{}: all its jobs came at once, so it has no first half; replay the whole",
                        trace.name)};
  rebase_times(part.jobs);
  return part;
}

std::vector<std::string> trace_formats() {
  std::vector<std::string> lines;
  for (const TraceFormat& form : kForms)
    lines.push_back(
        format("{}: {}, {}", joined(columns_of(form), ","), example_of(form.time),
               form.order == RowOrder::any ? "rows in any order" : "rows in the order of time"));
  return lines;
}

}  // namespace lockstep::sim
