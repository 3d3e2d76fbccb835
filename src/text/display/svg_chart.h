// Curves as a picture for documents and browsers: SVG.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/display/plot.h"

namespace lockstep {

struct SvgChartOptions {
  std::string_view title{};
  std::string_view x_label{};
  std::string_view y_label{};
  int width = 960;  // of the whole picture, in pixels at its natural size
  int height = 360;
};

// The series over axes with round numbers, which include 0 and the greatest value, and a legend.
// Consecutive points are joined; a point that is not finite leaves a gap. Negative values are drawn
// as 0. Ends with a newline.
std::string svg_chart(const std::vector<PlotSeries>& series, const SvgChartOptions& options);

}  // namespace lockstep
