#include "apps/run/metrics_display.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "apps/run/run_display.h"
#include "base/format.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

using Statistic = api::SeriesStatistic;

// Empty: no point of it is a number.
std::string extreme_of(const api::Series& series, bool greatest) {
  std::vector<double> numbers;
  for (const api::Point& point : series.points)
    if (!std::isnan(point.value)) numbers.push_back(point.value);
  if (numbers.empty()) return "-";
  return human_number(greatest ? std::ranges::max(numbers) : std::ranges::min(numbers));
}

// With the rank that has it; NaN is greater than all numbers.
std::string extreme_with_rank(const api::Series& series, bool greatest) {
  std::size_t found = 0;
  const auto is_less = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  for (std::size_t i = 1; i < series.points.size(); ++i) {
    const double value = series.points[i].value, best = series.points[found].value;
    if (greatest ? is_less(best, value) : is_less(value, best)) found = i;
  }
  const std::string number = human_number(series.points[found].value);
  return found < series.point_ranks.size()
             ? format("{} (rank {})", number, series.point_ranks[found])
             : number;
}

void add_line(Table& table, const api::Series& one, const std::string& of, const std::string& least,
              const std::string& most) {
  const api::Point& last = one.points.back();
  table.add({one.name, of, format("{}", one.total), human_number(one.points.front().value),
             human_number(last.value), least, most,
             one.node ? text(last.time) : format("{}", last.step)});
}

const api::Series* find(const std::vector<api::Series>& series, const std::string& name,
                        Statistic statistic) {
  const auto found = std::ranges::find_if(series, [&](const api::Series& each) {
    return each.name == name && each.statistic == statistic && !each.points.empty();
  });
  return found == series.end() ? nullptr : &*found;
}

int most_frequent(const std::vector<int>& ranks) {
  std::map<int, int> times;
  for (const int rank : ranks) ++times[rank];
  return std::ranges::max_element(times, {}, [](const auto& each) { return each.second; })->first;
}

}  // namespace

std::string metrics_table(const std::vector<api::Series>& series) {
  const bool of_node = !series.empty() && series.front().node;
  Table table({"METRIC", of_node ? "NODE" : "RANK", "POINTS", "FIRST", "LAST", "MIN", "MAX",
               of_node ? "LAST TIME" : "LAST STEP"});
  for (const api::Series& one : series) {
    if (one.points.empty()) continue;
    if (!one.statistic) {
      // Old telemetry has its extremes apart.
      const auto extreme = [&](bool greatest) {
        api::Series all = one;
        if (const api::Series* minutes =
                one.node ? find(series, one.name, greatest ? Statistic::max : Statistic::min)
                         : nullptr)
          all.points.insert(all.points.end(), minutes->points.begin(), minutes->points.end());
        return extreme_of(all, greatest);
      };
      add_line(table, one, format("{}", one.node.value_or(one.rank)), extreme(false),
               extreme(true));
    } else if (*one.statistic == Statistic::mean) {
      const api::Series* min = find(series, one.name, Statistic::min);
      const api::Series* max = find(series, one.name, Statistic::max);
      add_line(table, one, "all", min ? extreme_with_rank(*min, false) : "-",
               max ? extreme_with_rank(*max, true) : "-");
    }
  }
  return fit_to_terminal(table);
}

PlotSeries curve_of(const api::Series& series, std::string name, std::int64_t begin) {
  PlotSeries curve{.name = std::move(name)};
  for (const api::Point& point : series.points)
    curve.points.push_back({static_cast<double>(point.step - begin), point.value});
  return curve;
}

std::vector<PlotSeries> band_of(const std::vector<api::Series>& series) {
  std::vector<PlotSeries> curves;
  for (const auto& [statistic, word] :
       {std::pair(Statistic::mean, "mean"), std::pair(Statistic::min, "least"),
        std::pair(Statistic::max, "greatest")}) {
    const api::Series* one = find(series, series.front().name, statistic);
    if (one == nullptr) continue;
    const std::string of =
        one->point_ranks.empty() ? "" : format(", mostly rank {}", most_frequent(one->point_ranks));
    curves.push_back(curve_of(*one, format("{} {}{}", one->name, word, of)));
  }
  return curves;
}

}  // namespace lockstep::cli
