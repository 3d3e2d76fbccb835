#include "text/display/table.h"

#include <limits>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Table, ColumnsAreAlignedAndNumbersStandToTheRight) {
  Table table({"RUN", "NODES", "LOSS"});
  table.add({"demo/1", "2", "1.5"});
  table.add({"a-longer/12", "16", "-"});
  EXPECT_EQ(table.text(),
            "RUN          NODES  LOSS\n"
            "demo/1           2   1.5\n"
            "a-longer/12     16     -\n");
}

TEST(Table, TheWidestColumnOfWordsIsCutToFit) {
  Table table({"NAME", "REASON"});
  table.add({"demo/1", "waits for two hosts of four devices in one pod"});
  EXPECT_EQ(table.text(30),
            "NAME    REASON\n"
            "demo/1  waits for two hosts o…\n");
  EXPECT_EQ(display_width("demo/1  waits for two hosts o…"), 30u);
}

TEST(Table, WhatComesFromUsersCannotMoveTheCursor) {
  Table table({"NAME"});
  table.add({"a\x1b[2Jb\nc"});
  EXPECT_EQ(table.text(), "NAME\na [2Jb c\n");
}

TEST(Table, ColourComesOnlyWhenToldTo) {
  EXPECT_EQ(Table({"A"}).text(0, TableStyle::colour), "\x1b[1mA\x1b[0m\n");
  EXPECT_EQ(Table({"A"}).text(), "A\n");
}

TEST(Table, WidthIsThatOnTheTerminal) {
  EXPECT_EQ(display_width("Zürich"), 6u);
  EXPECT_EQ(display_width("日本"), 4u);
  EXPECT_EQ(display_width("e\u0301"), 1u);
  EXPECT_EQ(display_width("\xff\xc3"), 2u);
  EXPECT_EQ(fit_to_width("日本語", 4), "日… ");
  EXPECT_EQ(fit_to_width("ab", 4), "ab  ");
  EXPECT_EQ(fit_to_width("ab", 0), "");
}

TEST(NumberBuffer, AreShortForPeople) {
  EXPECT_EQ(human_number(0), "0");
  EXPECT_EQ(human_number(999), "999");
  EXPECT_EQ(human_number(1234), "1.2k");
  EXPECT_EQ(human_number(999'960), "1.0M");
  EXPECT_EQ(human_number(3.4e6), "3.4M");
  EXPECT_EQ(human_number(-5.6e9), "-5.6G");
  EXPECT_EQ(human_number(0.125), "0.125");
  EXPECT_EQ(human_number(999.9e18), "999.9E");
  EXPECT_EQ(human_number(1e81), "1.00e+81");
  EXPECT_EQ(human_number(-1e300), "-1.00e+300");
  EXPECT_EQ(human_number(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(human_number(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(Ages, AreToldInTheirLargestUnit) {
  Time now(std::chrono::hours(1'000'000));
  EXPECT_EQ(age(now - std::chrono::minutes(5), now), "5m ago");
  EXPECT_EQ(age(now - std::chrono::seconds(59), now), "59s ago");
  EXPECT_EQ(age(now - std::chrono::hours(50), now), "2d ago");
  EXPECT_EQ(age(now + std::chrono::hours(1), now), "now");
}

}  // namespace
}  // namespace lockstep
