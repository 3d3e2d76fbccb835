#include "apps/run/curves_display.h"

#include <cstddef>

namespace lockstep::cli {

void set_axis(api::CurvesQuery& query, const std::string& axis) {
  if (axis == "step") return;
  if (axis == "time")
    query.x = api::CurveAxis::time;
  else if (axis == "relative")
    query.x = api::CurveAxis::relative;
  else
    query.x_metric = axis;
}

std::string_view axis_label(std::string_view axis) {
  if (axis == "time") return "seconds since 1970";
  if (axis == "relative") return "seconds since the first";
  return axis;
}

std::vector<PlotSeries> plots_of(const api::CurveList& list) {
  std::vector<PlotSeries> plots;
  for (const api::RunCurve& curve : list.curves) {
    if (curve.x.empty()) continue;
    PlotSeries& one = plots.emplace_back();
    one.name = curve.run;
    for (std::size_t i = 0; i < curve.x.size(); ++i)
      one.points.push_back({curve.x[i], curve.values[i]});
  }
  return plots;
}

}  // namespace lockstep::cli
