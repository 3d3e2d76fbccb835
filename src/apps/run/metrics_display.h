// Metrics as tables and curves in the terminal. A metric of several ranks is a band: its mean, and
// the least and greatest value with the ranks that have them.
#pragma once

#include <string>
#include <vector>

#include "platform/api/insight_messages.h"
#include "text/display/plot.h"

namespace lockstep::cli {

// A line for each metric, rank or node; for a metric of several ranks one line.
std::string metrics_table(const std::vector<api::Series>& series);

// The band of a metric: its mean, and its least and greatest value, each named with the rank that
// has it at most steps.
std::vector<PlotSeries> band_of(const std::vector<api::Series>& series);

// The points of a series, by step since `begin`.
PlotSeries curve_of(const api::Series& series, std::string name, std::int64_t begin = 0);

}  // namespace lockstep::cli
