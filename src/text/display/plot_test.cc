#include "text/display/plot.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "text/display/table.h"

namespace lockstep {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

PlotSeries series(std::string name, std::vector<double> values) {
  PlotSeries result{.name = std::move(name)};
  for (std::size_t i = 0; i < values.size(); ++i)
    result.points.push_back({static_cast<double>(i), values[i]});
  return result;
}

std::vector<std::string> lines_of(const std::string& picture) {
  std::vector<std::string> lines{""};
  for (char c : picture)
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  return lines;
}

TEST(Plot, AFallingLineRunsFromTopLeftToBottomRight) {
  EXPECT_EQ(plot({series("loss", {4, 0})}, {.width = 20, .height = 3, .x_label = "step"}),
            "4 ┤⠉⠒⠢⠤⣀⡀\n"
            "2 ┤     ⠈⠉⠒⠢⠤⣀⡀\n"
            "0 ┤           ⠈⠉⠒⠢⠤⣀\n"
            "  └─────────────────\n"
            "   0     step      1\n"
            "loss 0");
}

TEST(Plot, APointThatIsNotANumberLeavesAGapAndIsCounted) {
  auto gap_in = [](const std::string& picture) { return lines_of(picture)[0].find("    "); };
  auto picture = plot({series("loss", {1, 1, kNan, 1, 1, kInfinity})}, {.width = 20, .height = 2});
  EXPECT_NE(picture.find("loss inf (2 of 6 points not drawn)"), std::string::npos) << picture;
  EXPECT_NE(gap_in(picture), std::string::npos) << picture;
  auto whole = plot({series("loss", {1, 1, 1, 1, 1})}, {.width = 20, .height = 2});
  EXPECT_EQ(gap_in(whole), std::string::npos) << whole;
}

TEST(Plot, ALogarithmicAxisLeavesOutWhatIsNotPositive) {
  auto picture =
      plot({series("loss", {1000, 10, 0, 0.1})}, {.width = 30, .height = 5, .log_y = true});
  auto lines = lines_of(picture);
  EXPECT_EQ(lines[0].substr(0, 4), "1000");
  EXPECT_EQ(lines[2].substr(0, 4), "  10");
  EXPECT_EQ(lines[4].substr(0, 4), " 0.1");
  EXPECT_NE(picture.find("1 of 4 points not drawn"), std::string::npos);
}

TEST(Plot, SeveralSeriesAreToldApartByLettersOrColours) {
  std::vector<PlotSeries> two = {series("loss", {3, 1}), series("accuracy", {0, 2})};
  auto plain = plot(two, {.width = 40, .height = 6});
  EXPECT_NE(plain.find("a: loss 1   b: accuracy 2"), std::string::npos) << plain;
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  auto coloured = plot(two, {.width = 40, .height = 6, .colour = true});
  EXPECT_NE(coloured.find("\x1b[33maccuracy 2\x1b[0m"), std::string::npos) << coloured;
}

TEST(Plot, NothingIsWiderThanAskedFor) {
  for (int width : {20, 33, 80, 200})
    for (const std::string& line :
         lines_of(plot({series("x", {-1e308, 1e308, 5e-324, 123456789})}, {.width = width})))
      EXPECT_LE(display_width(line), static_cast<std::size_t>(width)) << line;
}

TEST(Plot, WithoutAPointItSaysSo) {
  EXPECT_EQ(plot({series("loss", {})}, {}), "loss (no points)\nno point that could be drawn");
  EXPECT_EQ(plot({series("loss", {kNan})}, {}),
            "loss nan (1 of 1 points not drawn)\nno point that could be drawn");
}

TEST(Plot, AConstantIsDrawnInTheMiddle) {
  auto lines = lines_of(plot({series("x", {7, 7})}, {.width = 20, .height = 3}));
  EXPECT_GT(lines[1].size(), lines[0].size());
}

TEST(ProgressBar, ShowsTheShare) {
  EXPECT_EQ(progress_bar(0, 12), "[>.........]   0%");
  EXPECT_EQ(progress_bar(0.45, 12), "[####>.....]  45%");
  EXPECT_EQ(progress_bar(0.999, 12), "[#########>]  99%");
  EXPECT_EQ(progress_bar(1, 12), "[##########] 100%");
  EXPECT_EQ(progress_bar(7, 12), progress_bar(1, 12));
  EXPECT_EQ(progress_bar(kNan, 12), progress_bar(0, 12));
}

}  // namespace
}  // namespace lockstep
