// Curves of a metric of many runs in one answer, over steps, time or another metric. See
// messages.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/core/model/run.h"
#include "text/record.h"

namespace lockstep::api {

inline constexpr std::int64_t kCurvesMax = 100;  // of an answer

enum class CurveAxis { step, time, relative };
constexpr auto enum_names(CurveAxis) {
  return names<CurveAxis>(
      {{CurveAxis::step, "step"}, {CurveAxis::time, "time"}, {CurveAxis::relative, "relative"}});
}

struct CurvesQuery {
  std::string metric = {};
  std::optional<std::string> runs = {};
  std::optional<std::string> project = {};
  std::optional<model::RunState> state = {};
  std::optional<std::string> tag = {};
  std::optional<std::string> user = {};
  std::optional<Time> since = {}, until = {};
  std::optional<int> limit = {};  // absent: 20
  int pixels = 200;
  std::optional<int> rank = {};
  bool band = false;
  std::optional<CurveAxis> x = {};
  std::optional<std::string> x_metric = {};
  std::optional<double> from = {}, to = {};
  std::optional<std::string> query = {};

  static constexpr auto fields() {
    return record<CurvesQuery>(
        required(field("metric", &CurvesQuery::metric, "the metric")),
        field("runs", &CurvesQuery::runs,
              "of these runs: up to 100 names with commas between them, such as demo/1,demo/2; "
              "absent: of the newest runs that match the other fields"),
        field("project", &CurvesQuery::project, "only runs of this project"),
        field("state", &CurvesQuery::state, "only runs in this state"),
        field("tag", &CurvesQuery::tag, "only runs with this tag: KEY, or KEY=VALUE"),
        field("user", &CurvesQuery::user, "only runs that this user submitted"),
        field("since", &CurvesQuery::since, "only runs that were submitted then or later"),
        field("until", &CurvesQuery::until, "only runs that were submitted before"),
        between(1, kCurvesMax,
                field("limit", &CurvesQuery::limit,
                      "the greatest number of runs, if they are not named; absent: 20")),
        between(1, 2000,
                field("pixels", &CurvesQuery::pixels,
                      "stretches of x of equal length for each curve; a stretch of more points has "
                      "its first, last, least and greatest and the first NaN")),
        between(0, 2'147'483'647,
                field("rank", &CurvesQuery::rank,
                      "only points of this rank; absent: the mean over the ranks")),
        field("band", &CurvesQuery::band,
              "with the least and the greatest value over the ranks of each step"),
        field("x", &CurvesQuery::x,
              "step; time: seconds since 1970; relative: seconds since the run's first point of "
              "the metric. Absent: step"),
        field("x_metric", &CurvesQuery::x_metric,
              "instead of x: the value of this metric of the run, such as tokens, at the same step "
              "or the last one before it"),
        field("from", &CurvesQuery::from, "only points from this x on"),
        field("to", &CurvesQuery::to, "only points up to this x"),
        field("query", &CurvesQuery::query,
              "also only of runs that this line selects, in its order; as in the list of runs"));
  }
};

struct CurveValues {
  std::vector<double> x = {};
  std::vector<double> values = {};

  static constexpr auto fields() {
    return record<CurveValues>(
        field("x", &CurveValues::x, "of each point; it never descends"),
        field("values", &CurveValues::values, "of each point; may be NaN or infinite"));
  }
};

struct RunCurve {
  std::string run = {};
  bool known = false;
  std::string metric = {};
  bool aggregate = false;
  std::vector<double> x = {};
  std::vector<double> values = {};
  std::vector<std::int64_t> steps = {};
  std::int64_t total = 0;
  bool downsampled = false;
  CurveValues low = {}, high = {};

  static constexpr auto fields() {
    return record<RunCurve>(
        field("run", &RunCurve::run, "the run"),
        field("known", &RunCurve::known,
              "false: there is no such run, or you may not read it; all else is empty"),
        field("metric", &RunCurve::metric, "the metric"),
        field("aggregate", &RunCurve::aggregate,
              "values are the mean over the ranks that logged the metric at the step"),
        field("x", &RunCurve::x, "of each point; it never descends"),
        field("values", &RunCurve::values, "of each point; may be NaN or infinite"),
        field("steps", &RunCurve::steps, "of each point, if x is not the step; else empty"),
        field("total", &RunCurve::total,
              "points that the curve stands for; 0: the run has no such metric"),
        field("downsampled", &RunCurve::downsampled, "it stands for more points than it has"),
        field("low", &RunCurve::low, "the least values over the ranks; empty without `band`"),
        field("high", &RunCurve::high, "the greatest values over the ranks"));
  }
};

struct CurveList {
  std::vector<RunCurve> curves = {};
  bool more = false;

  static constexpr auto fields() {
    return record<CurveList>(
        field("curves", &CurveList::curves, "one for each run, in the order of the query"),
        field("more", &CurveList::more, "more runs match than the answer has"));
  }
};

}  // namespace lockstep::api
