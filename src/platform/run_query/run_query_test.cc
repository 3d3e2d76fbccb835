#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/run_query/query.h"
#include "platform/run_query/settings.h"
#include "platform/run_query/value.h"

namespace lockstep::run_query {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string problem_of(std::string_view line) {
  const auto query = parse_query(line);
  return query ? "" : query.error().message;
}

TEST(RunQuery, ALineIsReadAsTermsSortAndGroup) {
  const auto query =
      parse_query(R"(state:failed,queued -lr>=1e-3 "out of memory" -ann sort:-loss group:tag.team)")
          .value();
  EXPECT_THAT(
      query.terms,
      ElementsAre(Term{.field = "state", .is = Operator::is_one_of, .value = "failed,queued"},
                  Term{.negated = true, .field = "lr", .is = Operator::at_least, .value = "1e-3"},
                  Term{.value = "out of memory"}, Term{.negated = true, .value = "ann"}));
  EXPECT_EQ(query.sort, (Sort{"loss", true}));
  EXPECT_EQ(query.group, "tag.team");
}

TEST(RunQuery, QuotesMayBeginWithinAWordAndLackTheirEnd) {
  EXPECT_THAT(parse_query(R"(reason:"no space)").value().terms,
              ElementsAre(Term{.field = "reason", .value = "no space"}));
}

TEST(RunQuery, WordsThatSelectNothingAreLeftOut) {
  const auto query = parse_query("sort: sort:- group: lr= state:").value();
  EXPECT_TRUE(query.terms.empty());
  EXPECT_FALSE(query.sort);
  EXPECT_FALSE(query.group);
}

TEST(RunQuery, APathOrAnOptionIsAWord) {
  EXPECT_THAT(parse_query("demo/42 --lr=3 1<2").value().terms,
              ElementsAre(Term{.value = "demo/42"}, Term{.negated = true, .value = "-lr=3"},
                          Term{.value = "1<2"}));
}

TEST(RunQuery, AProblemQuotesTheWord) {
  EXPECT_EQ(problem_of("loss<x"), "`loss<x` compares with a number, and `x` is none");
  EXPECT_EQ(problem_of("loss<"), "`loss<` lacks a number, such as `loss<1`");
  EXPECT_EQ(problem_of("submitted>5"),
            "`submitted>5` compares with a time, such as 2026-01-31 or -7d, and `5` is none");
  EXPECT_EQ(problem_of("submitted:2026-01-31"),
            "`submitted:2026-01-31` needs a comparison, such as `submitted>-7d`");
  EXPECT_EQ(problem_of("tag!=a"), "`tag!=a` must be `tag:KEY` or `tag:KEY=VALUE`");
  EXPECT_THAT(problem_of(std::string(5000, 'a')), HasSubstr("at most 4000"));
  std::string many;
  for (int i = 0; i < 21; ++i) many += "a ";
  EXPECT_THAT(problem_of(many), HasSubstr("21 terms, at most 20"));
}

TEST(RunQuery, TimesAreDatesOrRelative) {
  const Time now = parse_time("2026-02-08T12:00:00Z").value();
  EXPECT_EQ(time_of("-7d", now), parse_time("2026-02-01T12:00:00Z").value());
  EXPECT_EQ(time_of("2026-02-01", now), parse_time("2026-02-01T00:00:00Z").value());
  EXPECT_EQ(time_of("2026-02-01T12:30Z", now), parse_time("2026-02-01T12:30:00Z").value());
  for (const auto* wrong : {"", "-", "7d", "-7", "-xd", "2026-02", "2026-02-01T12:30"})
    EXPECT_EQ(time_of(wrong, now), std::nullopt) << wrong;
}

TEST(RunQuery, NumbersOfSettingsHaveNoUnit) {
  EXPECT_EQ(plain_number("3e-4"), 3e-4);
  EXPECT_EQ(plain_number("+5."), 5);
  EXPECT_EQ(plain_number("-.5"), -0.5);
  for (const auto* text : {"", "-", "+-5", "0x10", "inf", "nan", "1h", "5 ", "1e"})
    EXPECT_EQ(plain_number(text), std::nullopt) << text;
  EXPECT_EQ(query_number("2h"), 7200);
  EXPECT_EQ(query_number("1.5M"), 90);
  EXPECT_EQ(query_number("h"), std::nullopt);
}

TEST(RunQuery, TextsAreSortedWithoutCaseAndByTheSizeOfTheirNumbers) {
  EXPECT_LT(natural_key("gpt-2"), natural_key("GPT-10"));
  EXPECT_LT(natural_key("v99999999"), natural_key("v100000000"));
  EXPECT_EQ(natural_key("run007"), natural_key("RUN7"));
  EXPECT_LT(natural_key("adam"), natural_key("Adamw"));
  std::string letters;
  for (int i = 0; i < 100; ++i) letters += "\u4e2d";
  EXPECT_EQ(natural_key(letters), letters.substr(0, 255)) << "no letter is cut";
}

TEST(RunQuery, SettingsAreReadFromTheCommand) {
  const std::vector<std::string> command = {"train.py", "--lr",  "3e-4",   "--bias=-1", "--fp16",
                                            "-v",       "x=1",   "++a.b=", "--shift",   "-.5",
                                            "--steps",  "--n-1", "2",      "=y",        "--lr=1"};
  EXPECT_THAT(
      settings_of(command),
      ElementsAre(Pair("a.b", ""), Pair("bias", "-1"), Pair("fp16", "true"), Pair("lr", "1"),
                  Pair("n-1", "2"), Pair("shift", "-.5"), Pair("steps", "true"), Pair("x", "1")));
}

}  // namespace
}  // namespace lockstep::run_query
