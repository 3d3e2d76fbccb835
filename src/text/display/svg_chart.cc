#include "text/display/svg_chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/format.h"
#include "text/display/table.h"

namespace lockstep {
namespace {

constexpr std::array<const char*, 6> kStrokes = {"#2563a8", "#c1272d", "#5aa02c",
                                                 "#e8923a", "#7a4fa3", "#666666"};
constexpr int kTicksMost = 8;
constexpr double kLeft = 64, kRight = 16, kTop = 56, kBottom = 48;  // around the drawing

std::string escaped_for_xml(std::string_view input) {
  std::string result;
  for (char c : input) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else
      result += c;
  }
  return result;
}

// From 0 to at least `most`, in steps of 1, 2 or 5 times a power of ten.
struct Axis {
  explicit Axis(double most) {
    const double least_step = (most > 0 ? most : 1) / kTicksMost;
    const double power = std::pow(10, std::floor(std::log10(least_step)));
    step = 10 * power;
    for (const double factor : {5, 2, 1})
      if (factor * power >= least_step) step = factor * power;
    steps = static_cast<int>(std::ceil((most > 0 ? most : 1) / step - 1e-9));
  }
  double end() const { return step * steps; }

  double step = 1;
  int steps = 1;
};

bool is_drawn(const PlotPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

double greatest(const std::vector<PlotSeries>& series, double PlotPoint::* coordinate) {
  double most = 0;
  for (const PlotSeries& one : series)
    for (const PlotPoint& point : one.points)
      if (is_drawn(point)) most = std::max(most, point.*coordinate);
  return most;
}

class Chart {
 public:
  Chart(const std::vector<PlotSeries>& series, const SvgChartOptions& options)
      : series_(series),
        options_(options),
        x_(greatest(series, &PlotPoint::x)),
        y_(greatest(series, &PlotPoint::y)) {}

  std::string text() const {
    std::string svg = format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
        options_.width, options_.height);
    svg +=
        text_element(kLeft, 20, "start", options_.title, " font-size=\"15\" font-weight=\"bold\"");
    svg += grid() + legend();
    for (std::size_t i = 0; i < series_.size(); ++i) svg += curve(i);
    return svg + "</svg>\n";
  }

 private:
  double right() const { return options_.width - kRight; }
  double bottom() const { return options_.height - kBottom; }
  double x_of(double value) const {
    return kLeft + (right() - kLeft) * std::clamp(value / x_.end(), 0.0, 1.0);
  }
  double y_of(double value) const {
    return bottom() - (bottom() - kTop) * std::clamp(value / y_.end(), 0.0, 1.0);
  }

  static std::string text_element(double x, double y, std::string_view anchor,
                                  std::string_view label, std::string_view more = "") {
    return format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor,
                  more, escaped_for_xml(label));
  }

  static std::string line(double x1, double y1, double x2, double y2) {
    return format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", x1, y1,
        x2, y2);
  }

  std::string grid() const {
    std::string svg;
    for (int i = 0; i <= y_.steps; ++i) {
      const double y = y_of(i * y_.step);
      svg += line(kLeft, y, right(), y) +
             text_element(kLeft - 6, y + 4, "end", human_number(i * y_.step));
    }
    for (int i = 0; i <= x_.steps; ++i) {
      const double x = x_of(i * x_.step);
      svg += line(x, kTop, x, bottom()) +
             text_element(x, bottom() + 16, "middle", human_number(i * x_.step));
    }
    svg += text_element((kLeft + right()) / 2, bottom() + 36, "middle", options_.x_label);
    return svg + text_element(kLeft, kTop - 8, "start", options_.y_label);
  }

  // From the right, above the drawing.
  std::string legend() const {
    std::string svg;
    double x = right();
    for (std::size_t i = series_.size(); i-- > 0;) {
      svg += text_element(x, kTop - 8, "end", series_[i].name,
                          format(" fill=\"{}\" font-weight=\"bold\"", stroke(i)));
      x -= 7.5 * static_cast<double>(display_width(series_[i].name)) + 16;
    }
    return svg;
  }

  std::string curve(std::size_t index) const {
    std::string path;
    bool joined_on = false;
    for (const PlotPoint& point : series_[index].points) {
      if (is_drawn(point))
        path += format("{}{:.1f} {:.1f}", joined_on ? "L" : "M", x_of(point.x), y_of(point.y));
      joined_on = is_drawn(point);
    }
    return format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.2\"/>\n", path,
                  stroke(index));
  }

  static const char* stroke(std::size_t index) { return kStrokes[index % kStrokes.size()]; }

  const std::vector<PlotSeries>& series_;
  const SvgChartOptions& options_;
  const Axis x_, y_;
};

}  // namespace

std::string svg_chart(const std::vector<PlotSeries>& series, const SvgChartOptions& options) {
  return Chart(series, options).text();
}

}  // namespace lockstep
