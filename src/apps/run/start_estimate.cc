#include "apps/run/start_estimate.h"

#include <algorithm>

#include "base/format.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr int kLineMin = 20;
constexpr auto kRuns = "█", kWaits = "░";

// Whole minutes from an hour on, for readability.
std::string rounded(Duration duration) {
  if (duration >= std::chrono::hours(1))
    return text(Duration(std::chrono::ceil<std::chrono::minutes>(duration)));
  return text(Duration(std::chrono::ceil<std::chrono::seconds>(duration)));
}

std::string repeated(std::string_view mark, int times) {
  std::string words;
  for (int i = 0; i < times; ++i) words += mark;
  return words;
}

// The chart spans now to the last moment that any row names, at least a minute.
Time last_moment(const std::vector<TimelineRow>& rows, Time now) {
  Time last = now + std::chrono::minutes(1);
  for (const TimelineRow& row : rows)
    for (const auto& moment : {row.from, row.until})
      if (moment) last = std::max(last, *moment);
  return last;
}

class Scale {
 public:
  Scale(Time from, Time until, int columns) : from_(from), span_(until - from), columns_(columns) {}
  int column(Time moment) const {
    const Duration passed = std::clamp<Duration>(moment - from_, Duration(0), span_);
    return static_cast<int>(passed.count() / (span_.count() / columns_ + 1));
  }

 private:
  Time from_;
  Duration span_;
  int columns_;
};

std::string bar(const TimelineRow& row, const Scale& scale, Time last, int columns) {
  if (!row.from) return std::string(static_cast<std::size_t>(columns), ' ');
  const int begin = scale.column(*row.from);
  const int end = std::max(begin + 1, scale.column(row.until.value_or(last)) + 1);
  return std::string(static_cast<std::size_t>(begin), ' ') +
         repeated(row.waits ? kWaits : kRuns, end - begin) +
         std::string(static_cast<std::size_t>(std::max(0, columns - end)), ' ');
}

}  // namespace

std::string when_text(const std::optional<Time>& moment, Time now) {
  if (!moment) return "-";
  return *moment <= now ? "any moment" : "in " + rounded(*moment - now);
}

std::string start_text(Time expected, const std::optional<Time>& latest, Time now) {
  const std::string words =
      expected <= now ? std::string("at any moment") : "in about " + rounded(expected - now);
  return latest && *latest > now ? words + ", at the latest " + when_text(latest, now) : words;
}

std::string runs_ahead_text(std::int64_t ahead) {
  if (ahead == 0) return "no run stands before it";
  return ahead == 1 ? "1 run stands before it" : format("{} runs stand before it", ahead);
}

std::string moment_text(Time moment) {
  return text(Time(std::chrono::floor<std::chrono::seconds>(moment)));
}

std::string timeline_text(const std::vector<TimelineRow>& rows, Time now, int width) {
  std::size_t names = 3, remarks = 0;
  for (const TimelineRow& row : rows) {
    names = std::max(names, display_width(row.name));
    remarks = std::max(remarks, display_width(row.remark));
  }
  const int columns = std::max(kLineMin, width - static_cast<int>(names + remarks) - 5);
  const Time last = last_moment(rows, now);
  const Scale scale(now, last, columns);
  const std::string end = "in " + rounded(last - now);
  std::string lines = format("{}  {}{}\n", fit_to_width("", names),
                             fit_to_width("now", static_cast<std::size_t>(std::max(
                                                     4, columns - static_cast<int>(end.size())))),
                             end);
  for (const TimelineRow& row : rows) {
    std::string line = format("{}  {}  {}", fit_to_width(row.name, names),
                              bar(row, scale, last, columns), row.remark);
    while (line.ends_with(' ')) line.pop_back();
    lines += line + "\n";
  }
  lines.pop_back();
  return lines;
}

}  // namespace lockstep::cli
