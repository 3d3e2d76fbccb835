// The search of a run's lines.
#include <algorithm>
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "base/temporary_folder_for_test.h"
#include "platform/insight/ids_for_test.h"
#include "platform/insight/insight.h"
#include "platform/insight/series/folder_series.h"

namespace lockstep::insight {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

LinePattern pattern_of(const std::string& text, LetterCase letters = LetterCase::exact) {
  return *LinePattern::create(text, letters);
}

constexpr Duration kLong = std::chrono::hours(1);  // no slice ends by time

class LineSearch : public ::testing::Test {
 protected:
  void say(std::string text, int rank = 0) {
    const std::vector<spool::TelemetryItem> items = {{.sequence = ++sequence_,
                                                      .kind = spool::TelemetryKind::log,
                                                      .rank = rank,
                                                      .text = std::move(text)}};
    ASSERT_EQ(insight_.ingest(kNode, items).value(), sequence_);
  }
  // All matches, slice by slice; "--" before a line that does not follow the one before.
  std::vector<std::string> search(LogSearch search) {
    std::vector<std::string> all;
    for (slices_ = 1;; ++slices_) {
      const auto found = insight_.search(kRun, search).value();
      for (const api::LogMatch& match : found.lines) {
        if (match.begins && !all.empty()) all.emplace_back("--");
        all.push_back((match.matches ? "" : "  ") + match.text);
      }
      if (found.ended) return all;
      EXPECT_GT(found.next, search.after) << "a search without progress";
      search.after = found.next;
    }
  }

  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  TemporaryFolder folder_;
  std::unique_ptr<SeriesStore> series_ = open_folder_series(folder_ / "series").value();
  Insight insight_{*database_, *series_};
  std::int64_t sequence_ = 0;
  int slices_ = 0;
};

TEST_F(LineSearch, LinesThatMatchAreFoundWithTheBytesThatMatch) {
  say("step 1 loss=0.5\nstep 2 loss=nan loss=nan\nother");
  const auto pattern = pattern_of("loss=(nan|inf)");
  const auto found = insight_.search(kRun, {.pattern = pattern, .time_max = kLong}).value();
  ASSERT_EQ(found.lines.size(), 1U);
  EXPECT_EQ(found.lines[0].text, "step 2 loss=nan loss=nan");
  EXPECT_THAT(found.lines[0].parts, ElementsAre(api::MatchedPart{7, 15}, api::MatchedPart{16, 24}));
  EXPECT_TRUE(found.ended);
}

TEST_F(LineSearch, LetterCaseCountsUnlessItIsIgnored) {
  say("Error here\nerror there");
  EXPECT_THAT(search({.pattern = pattern_of("error")}), ElementsAre("error there"));
  EXPECT_THAT(search({.pattern = pattern_of("error", LetterCase::ignored)}),
              ElementsAre("Error here", "error there"));
}

TEST_F(LineSearch, ARankHasItsOwnLinesAndContext) {
  for (int i = 0; i < 6; ++i) say(format("line {}", i), i % 2);
  EXPECT_THAT(search({.pattern = pattern_of("line 3"), .context = 1, .rank = 1}),
              ElementsAre("  line 1", "line 3", "  line 5"));
  EXPECT_THAT(search({.pattern = pattern_of("line 3"), .rank = 0}), IsEmpty());
}

// The answer must not depend on where the slices end.
TEST_F(LineSearch, SlicesOfAnySizeGiveTheSameLinesAndContext) {
  for (int i = 0; i < 200; ++i)
    say(format("{}{}", i % 17 == 0 || i % 23 == 0 ? "hit " : "line ", i), i % 3);
  for (const int context : {0, 1, 3, 20}) {
    const auto pattern = pattern_of("^hit");
    const auto whole = search({.pattern = pattern, .context = context, .time_max = kLong});
    EXPECT_EQ(slices_, 1);
    EXPECT_EQ(std::ranges::count_if(whole, [](auto& s) { return s.starts_with("hit"); }), 20);
    for (const int size : {1, 2, 7, 64}) {
      const std::int64_t lines = context + size;
      EXPECT_EQ(search({.pattern = pattern, .context = context, .lines_max = lines}), whole)
          << context << " " << size;
      EXPECT_GT(slices_, 2);
    }
    EXPECT_EQ(search({.pattern = pattern, .context = context, .time_max = Duration(0)}), whole)
        << "a slice that is over at once searches a line";
  }
}

TEST_F(LineSearch, WithoutLinesOrMatchesTheSearchEnds) {
  EXPECT_THAT(search({.pattern = pattern_of("x")}), IsEmpty());
  say("y");
  EXPECT_THAT(search({.pattern = pattern_of("x"), .context = 3}), IsEmpty());
}

TEST_F(LineSearch, APatternThatMatchesNothingOfALineHasNoParts) {
  say("abc");
  const auto pattern = pattern_of("x*");
  const auto found = insight_.search(kRun, {.pattern = pattern}).value();
  ASSERT_EQ(found.lines.size(), 1U);
  EXPECT_THAT(found.lines[0].parts, IsEmpty());
}

TEST(LinePattern, OneThatRe2RefusesIsOneLine) {
  for (const auto& [text, reason] :
       std::vector<std::pair<std::string, std::string>>{{"", "empty"},
                                                        {"a(b", "missing )"},
                                                        {"(a)\\1", "invalid escape"},
                                                        {"(?=a)", "invalid perl operator"},
                                                        {"((a{100}){100}){100}", ""},
                                                        {"[a-z]{900}[a-z]{900}[a-z]{900}", ""},
                                                        {std::string(2000, 'a'), "1000 bytes"}}) {
    const auto pattern = LinePattern::create(text, LetterCase::exact);
    ASSERT_FALSE(pattern.has_value()) << text;
    EXPECT_EQ(pattern.error().code, Code::invalid);
    EXPECT_THAT(pattern.error().message, HasSubstr(reason));
    EXPECT_EQ(pattern.error().message.find('\n'), std::string::npos);
  }
}

// Backtracking would need 2^30 steps for the first one.
TEST(LinePattern, TimeGrowsWithTheLineAndNotWithItsExponential) {
  EXPECT_FALSE(pattern_of("^(a+)+$").matches(std::string(30'000, 'a') + "!"));
  EXPECT_TRUE(pattern_of("(a|b)*a(a|b){12}$").matches(std::string(30'000, 'a')));
}

TEST(LinePattern, ALineWithBrokenUtf8IsSearched) {
  EXPECT_TRUE(pattern_of("error").matches("\xff\xfe error \x80"));
}

}  // namespace
}  // namespace lockstep::insight
