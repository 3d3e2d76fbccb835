#include "text/display/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "base/format.h"
#include "text/display/table.h"

namespace lockstep {
namespace {

constexpr int kDotsAcross = 2, kDotsDown = 4;
constexpr int kWidthMin = 20, kHeightMin = 2, kSizeMax = 1000;
constexpr std::array<const char*, 6> kColours = {"\x1b[36m", "\x1b[33m", "\x1b[35m",
                                                 "\x1b[32m", "\x1b[31m", "\x1b[34m"};
constexpr const char* kNoColour = "\x1b[0m";

const char* colour_of(std::size_t series) { return kColours[series % kColours.size()]; }
char letter_of(std::size_t series) { return static_cast<char>('a' + series % 26); }

// Subtracts halves, because the difference of two doubles may overflow.
struct Interval {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  bool empty() const { return least > most; }
  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  // From 0 to 1; all in the middle if there is only one value.
  double share(double value) const {
    if (least == most) return 0.5;
    return (value / 2 - least / 2) / (most / 2 - least / 2);
  }
  double at(double share) const { return least * (1 - share) + most * share; }
};

// Characters of dots, each with the series that was drawn into it last.
class Canvas {
 public:
  Canvas(int width, int height)
      : width_(width), cells_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height)) {}

  void dot(int x, int y, std::size_t series) {
    // Unicode numbers the dots of a cell down the left side, down the right side, then the lowest
    // two.
    static constexpr int kBit[kDotsDown][kDotsAcross] = {{0, 3}, {1, 4}, {2, 5}, {6, 7}};
    Cell& at = cell(x / kDotsAcross, y / kDotsDown);
    at.dots = static_cast<std::uint8_t>(at.dots | 1 << kBit[y % kDotsDown][x % kDotsAcross]);
    at.series = series;
  }
  void mark(int x, int y, std::size_t series) {
    Cell& at = cell(x / kDotsAcross, y / kDotsDown);
    at.letter = letter_of(series);
    at.series = series;
  }

  std::string row(int y, bool colour) const {
    std::string result;
    for (int x = 0; x < width_; ++x) {
      const Cell& at = cells_[static_cast<std::size_t>(y * width_ + x)];
      std::string glyph = at.letter != 0 ? std::string(1, at.letter) : braille(at.dots);
      result += colour && at.dots != 0 ? colour_of(at.series) + glyph + kNoColour : glyph;
    }
    return result;
  }

 private:
  struct Cell {
    std::uint8_t dots = 0;
    char letter = 0;
    std::size_t series = 0;
  };

  Cell& cell(int x, int y) { return cells_[static_cast<std::size_t>(y * width_ + x)]; }
  // U+2800 with the dots as the low byte, in UTF-8; a blank if there are none.
  static std::string braille(std::uint8_t dots) {
    if (dots == 0) return " ";
    return {'\xe2', static_cast<char>(0xa0 | dots >> 6), static_cast<char>(0x80 | (dots & 0x3f))};
  }

  int width_;
  std::vector<Cell> cells_;
};

struct Dot {
  int x, y;
};

// Bresenham's line.
void draw_line(Canvas& canvas, Dot from, Dot to, std::size_t series) {
  int dx = std::abs(to.x - from.x), dy = -std::abs(to.y - from.y);
  int step_x = from.x < to.x ? 1 : -1, step_y = from.y < to.y ? 1 : -1;
  for (int error = dx + dy;;) {
    canvas.dot(from.x, from.y, series);
    if (from.x == to.x && from.y == to.y) return;
    int doubled = 2 * error;
    if (doubled >= dy) error += dy, from.x += step_x;
    if (doubled <= dx) error += dx, from.y += step_y;
  }
}

// The positions of points on the canvas, and which points can be drawn.
class Scale {
 public:
  Scale(const std::vector<PlotSeries>& series, bool log_y) : log_y_(log_y) {
    for (const PlotSeries& one : series)
      for (const PlotPoint& point : one.points)
        if (auto y = height_of(point)) x_.add(point.x), y_.add(*y);
  }

  bool empty() const { return x_.empty(); }
  const Interval& x() const { return x_; }
  bool is_drawn(const PlotPoint& point) const { return height_of(point).has_value(); }
  // The value that a row of characters represents; the first row is the greatest value, the last
  // the least.
  double value_of_row(int row, int rows) const {
    double height = y_.at(1 - static_cast<double>(row) / (rows - 1));
    return log_y_ ? std::pow(10, height) : height;
  }
  Dot dot_of(const PlotPoint& point, int width, int height) const {
    auto to_dot = [](double share, int dots) {
      return std::clamp(static_cast<int>(std::lround(share * (dots - 1))), 0, dots - 1);
    };
    int across = width * kDotsAcross, down = height * kDotsDown;
    return {to_dot(x_.share(point.x), across),
            down - 1 - to_dot(y_.share(*height_of(point)), down)};
  }

 private:
  std::optional<double> height_of(const PlotPoint& point) const {
    if (!std::isfinite(point.x) || !std::isfinite(point.y)) return std::nullopt;
    if (!log_y_) return point.y;
    if (point.y <= 0) return std::nullopt;
    return std::log10(point.y);
  }

  bool log_y_;
  Interval x_, y_;
};

void draw(Canvas& canvas, const Scale& scale, const PlotSeries& series, std::size_t index,
          int width, int height, bool mark_end) {
  std::optional<Dot> last, end;
  for (const PlotPoint& point : series.points) {
    if (!scale.is_drawn(point)) {
      last.reset();
      continue;
    }
    Dot dot = scale.dot_of(point, width, height);
    draw_line(canvas, last.value_or(dot), dot, index);
    last = end = dot;
  }
  if (mark_end && end) canvas.mark(end->x, end->y, index);
}

std::string number(double value) {
  return std::abs(value) >= 1e5 ? human_number(value) : format("{:.4g}", value);
}

// "loss 2.104 (3 of 400 points not drawn)"
std::string legend_of(const PlotSeries& series, const Scale& scale) {
  if (series.points.empty()) return series.name + " (no points)";
  std::string result = format("{} {}", series.name, number(series.points.back().y));
  auto left_out = std::count_if(series.points.begin(), series.points.end(),
                                [&](const PlotPoint& point) { return !scale.is_drawn(point); });
  if (left_out > 0)
    result += format(" ({} of {} points not drawn)", left_out, series.points.size());
  return result;
}

std::string legend(const std::vector<PlotSeries>& series, const Scale& scale, bool colour) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < series.size(); ++i) {
    std::string part = legend_of(series[i], scale);
    if (colour)
      part = colour_of(i) + part + kNoColour;
    else if (series.size() > 1)
      part = format("{}: {}", letter_of(i), part);
    parts.push_back(std::move(part));
  }
  return joined(parts, "   ");
}

// "0          step          400", as wide as the drawing.
std::string x_axis(const Interval& x, std::string_view label, std::size_t width) {
  std::string left = number(x.least), right = number(x.most);
  std::size_t used = left.size() + display_width(label) + right.size();
  if (used + 2 > width) return left + " " + right;
  std::size_t before = (width - used) / 2;
  return left + std::string(before, ' ') + std::string(label) +
         std::string(width - used - before, ' ') + right;
}

std::string repeated(std::string_view piece, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += piece;
  return result;
}

}  // namespace

std::string plot(const std::vector<PlotSeries>& series, const PlotOptions& options) {
  Scale scale(series, options.log_y);
  std::string legend_text = legend(series, scale, options.colour);
  if (scale.empty()) return legend_text + "\nno point that could be drawn";
  const int height = std::clamp(options.height, kHeightMin, kSizeMax);
  std::vector<std::string> labels(static_cast<std::size_t>(height));
  for (int row : {0, height / 2, height - 1})
    labels[static_cast<std::size_t>(row)] = number(scale.value_of_row(row, height));
  std::size_t margin = 0;
  for (const std::string& label : labels) margin = std::max(margin, label.size());

  const int width = std::clamp(options.width, kWidthMin, kSizeMax) - static_cast<int>(margin) - 2;
  Canvas canvas(width, height);
  for (std::size_t i = 0; i < series.size(); ++i)
    draw(canvas, scale, series[i], i, width, height, !options.colour && series.size() > 1);

  std::string picture;
  for (int row = 0; row < height; ++row) {
    const std::string& label = labels[static_cast<std::size_t>(row)];
    std::string line = format("{:>{}} {}{}", label, margin, label.empty() ? "│" : "┤",
                              canvas.row(row, options.colour));
    line.erase(line.find_last_not_of(' ') + 1);
    picture += line + "\n";
  }
  picture += format("{:>{}} └{}\n", "", margin, repeated("─", width));
  picture += format("{:>{}} {}\n", "", margin + 1,
                    x_axis(scale.x(), options.x_label, static_cast<std::size_t>(width)));
  return picture + legend_text;
}

std::string progress_bar(double share, int width) {
  share = share > 0 ? std::min(share, 1.0) : 0;  // NaN too becomes 0
  int columns = std::clamp(width, 5, kSizeMax) - 2;
  int done = static_cast<int>(share * columns);
  std::string bar = std::string(static_cast<std::size_t>(done), '#');
  if (done < columns) bar += '>';
  bar.resize(static_cast<std::size_t>(columns), '.');
  // Rounded down: 100% is shown only when all is done.
  return format("[{}] {:3}%", bar, static_cast<int>(share * 100));
}

}  // namespace lockstep
