#include "text/display/svg_chart.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

std::string chart(std::vector<PlotPoint> points) {
  return svg_chart({{.name = "in use", .points = std::move(points)}},
                   {.title = "a < b & c", .x_label = "days", .y_label = "%"});
}

TEST(SvgChart, ACurveRunsFromTheLeftBelowToTheRightAbove) {
  const std::string svg = chart({{0, 0}, {4, 80}});
  EXPECT_THAT(svg, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 360\""));
  EXPECT_THAT(svg, HasSubstr("<path d=\"M64.0 312.0L944.0 56.0\""));
  EXPECT_THAT(svg, EndsWith("</svg>\n"));
}

TEST(SvgChart, TheAxesHaveRoundNumbersAndTheirNames) {
  const std::string svg = chart({{0, 0}, {7.3, 96}});
  for (const char* words : {">0<", ">8<", ">20<", ">100<", ">days<", ">%<", ">in use<"})
    EXPECT_THAT(svg, HasSubstr(words));
}

TEST(SvgChart, WhatXmlReservesIsEscaped) {
  EXPECT_THAT(chart({{0, 1}, {1, 1}}), HasSubstr("a &lt; b &amp; c"));
}

TEST(SvgChart, APointThatIsNotFiniteLeavesAGap) {
  EXPECT_THAT(chart({{0, 1}, {1, kGap}, {2, 1}, {4, 1}}),
              HasSubstr("<path d=\"M64.0 56.0M504.0 56.0L944.0 56.0\""));
}

TEST(SvgChart, WithoutPointsThereAreStillAxes) {
  const std::string svg = chart({});
  EXPECT_THAT(svg, HasSubstr(">1<"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace lockstep
