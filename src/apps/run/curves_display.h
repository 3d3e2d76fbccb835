// Curves of one or several runs, in the terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "platform/api/curve_messages.h"
#include "text/display/plot.h"

namespace lockstep::cli {

// "step", "time", "relative", or the name of a metric.
void set_axis(api::CurvesQuery& query, const std::string& axis);
std::string_view axis_label(std::string_view axis);

// A curve for each run that has the metric, with the name of the run.
std::vector<PlotSeries> plots_of(const api::CurveList& list);

}  // namespace lockstep::cli
