// Curves and progress bars for terminals. A braille character holds 2 x 4 dots, so that 80 x 16
// characters draw 160 x 64 points: enough to show a falling loss.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct PlotPoint {
  double x = 0, y = 0;
};

// Consecutive points are joined; a point whose y is not finite leaves a gap.
struct PlotSeries {
  std::string name{};
  std::vector<PlotPoint> points{};
};

struct PlotOptions {
  int width = 80;   // of the whole picture, labels included
  int height = 16;  // of the drawing, without axis and legend
  bool log_y = false;
  bool colour = false;  // else the series' ends are marked with a, b, c, ...
  std::string_view x_label{};
};

// The picture, the axes with their least and greatest values, and a legend with each series' last
// value and its number of points that cannot be drawn (not finite; not positive on a logarithmic
// axis). Ends without a newline.
std::string plot(const std::vector<PlotSeries>& series, const PlotOptions& options);

// "[#########>..........]  45%": the bar has `width` columns with its brackets. share is from 0 to
// 1; outside, or NaN, it is drawn as the nearer end, or as 0.
std::string progress_bar(double share, int width);

}  // namespace lockstep
