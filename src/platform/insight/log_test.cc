// The log lines of a run: pages, size limits, expiry.
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
using ::testing::SizeIs;
using ::testing::StartsWith;

std::vector<std::string> texts(const std::vector<api::LogLine>& lines) {
  std::vector<std::string> texts;
  for (const auto& line : lines) texts.push_back(line.text);
  return texts;
}

class LogTest : public ::testing::Test {
 protected:
  void say(Insight& insight, std::string text, int rank = 0) {
    const std::vector<spool::TelemetryItem> items = {{.sequence = ++sequence_,
                                                      .kind = spool::TelemetryKind::log,
                                                      .rank = rank,
                                                      .text = std::move(text)}};
    ASSERT_EQ(insight.ingest(kNode, items).value(), sequence_);
  }
  // Every line, page by page.
  static std::vector<api::LogLine> read_all(Insight& insight, std::int64_t limit,
                                            std::optional<int> rank = std::nullopt) {
    std::vector<api::LogLine> all;
    for (std::int64_t after = 0;;) {
      auto page = insight.log(kRun, {.after = after, .limit = limit, .rank = rank}).value();
      for (auto& line : page.lines) all.push_back(std::move(line));
      if (!page.more) return all;
      after = all.back().cursor;
    }
  }

  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  TemporaryFolder folder_;
  std::unique_ptr<SeriesStore> series_ = open_folder_series(folder_ / "series").value();
  Insight insight_{*database_, *series_};
  std::int64_t sequence_ = 0;
};

TEST_F(LogTest, PagesOfAnySizeShowEachLineOnce) {
  std::vector<std::string> said;
  for (int item = 0; item < 60; ++item) {
    std::string text;
    for (int line = 0; line <= item % 7; ++line) {
      said.push_back(format("{}:{}", item, line));
      text += (line > 0 ? "\n" : "") + said.back();
    }
    say(insight_, text, item % 3);
  }
  for (const int limit : {1, 2, 5, 63, 1000}) EXPECT_EQ(texts(read_all(insight_, limit)), said);
  EXPECT_EQ(texts(insight_.log_tail(kRun, 1000).value()), said);
  const auto of_rank = read_all(insight_, 4, 2);
  ASSERT_EQ(of_rank.size(), 77u);
  EXPECT_EQ(of_rank[0].text, "2:0");
  EXPECT_THAT(texts(insight_.log_tail(kRun, 2, 2).value()), ElementsAre("59:2", "59:3"));
}

TEST_F(LogTest, CursorsAscendAndStayWithTheirLines) {
  say(insight_, "a\nb");
  say(insight_, "c");
  const auto lines = read_all(insight_, 10);
  EXPECT_LT(lines[0].cursor, lines[1].cursor);
  EXPECT_LT(lines[1].cursor, lines[2].cursor);
  say(insight_, "d");
  EXPECT_THAT(texts(insight_.log(kRun, {.after = lines[1].cursor, .rank = {}}).value().lines),
              ElementsAre("c", "d"));
}

TEST_F(LogTest, ALongTextIsStoredInSeveralRowsAndReadAsOne) {
  std::string text = "first";
  for (int i = 0; i < 5000; ++i) text += format("\nline {:060}", i);
  say(insight_, text);
  const auto lines = read_all(insight_, 700);
  ASSERT_THAT(lines, SizeIs(5001));
  EXPECT_EQ(lines.back().text, format("line {:060}", 4999));
  EXPECT_GT(
      std::get<0>(database_->rows<std::int64_t>("select count(*) from log_chunks").value()[0]), 1);
}

TEST_F(LogTest, APageOfLongLinesEndsBeforeItsLimit) {
  for (int i = 0; i < 400; ++i) say(insight_, std::string(30'000, 'x'));
  const auto page = insight_.log(kRun, {.limit = 10'000, .rank = {}}).value();
  EXPECT_TRUE(page.more);
  EXPECT_LT(page.lines.size(), 200u);
  EXPECT_LT(insight_.log_tail(kRun, 10'000).value().size(), 200u);
  EXPECT_THAT(read_all(insight_, 10'000), SizeIs(400));
}

TEST_F(LogTest, ALineOverTheLimitIsCutAtACharacterAndMarked) {
  Insight strict(*database_, *series_, {.line = 10_B});
  say(strict, "123456789\xc3\xa9 and more\nshort");
  EXPECT_THAT(texts(read_all(strict, 10)),
              ElementsAre(StartsWith("123456789 [lockstep: 11 bytes"), "short"));
}

TEST_F(LogTest, TheNewestLinesAreKeptAndOneLineSaysHowManyWent) {
  Insight strict(*database_, *series_, {.log = 10_KiB});
  for (int i = 0; i < 100; ++i) say(strict, format("{:0200}", i));
  const auto lines = read_all(strict, 7);
  ASSERT_GT(lines.size(), 30u);
  ASSERT_LT(lines.size(), 45u);
  EXPECT_THAT(lines[0].text,
              HasSubstr(format("{} lines before this are left out", 101 - lines.size())));
  EXPECT_THAT(lines[0].text, HasSubstr("rank-*.log*"));
  EXPECT_EQ(lines[1].text, format("{:0200}", 101 - lines.size()));
  EXPECT_EQ(lines.back().text, format("{:0200}", 99));
  EXPECT_EQ(texts(strict.log_tail(kRun, 1000).value()), texts(lines));
}

TEST_F(LogTest, AReaderWhoHadReadWhatIsCutHearsNothingOfIt) {
  Insight strict(*database_, *series_, {.log = 10_KiB});
  for (int i = 0; i < 90; ++i) say(strict, format("{:0200}", i));
  const auto cursor = read_all(strict, 1000).back().cursor;
  for (int i = 90; i < 95; ++i) say(strict, format("{:0200}", i));
  const auto page = strict.log(kRun, {.after = cursor, .rank = {}}).value();
  ASSERT_THAT(page.lines, SizeIs(5));
  EXPECT_EQ(page.lines[0].text, format("{:0200}", 90));
}

TEST_F(LogTest, LinesAreStoredCompressedAndReadUnchanged) {
  std::string text = "epoch 0";
  for (int i = 1; i < 1000; ++i) text += format("\nepoch {} loss 0.{} lr 3e-4", i, i * 7919 % 9973);
  say(insight_, text);
  say(insight_, "short");
  const auto stored = std::get<0>(
      database_
          ->rows<std::int64_t>("select sum(length(text) + ifnull(length(packed), 0)) from "
                               "log_chunks")
          .value()[0]);
  EXPECT_LT(stored, std::ssize(text) / 3);
  std::string read;
  for (const auto& line : read_all(insight_, 300)) read += line.text + "\n";
  EXPECT_EQ(read, text + "\nshort\n");
}

TEST_F(LogTest, ADamagedChunkIsOneLineAndTheLinesAfterItAreRead) {
  say(insight_, std::string(1000, 'x') + "\n" + std::string(1000, 'x'));
  say(insight_, "after it");
  for (const std::string damaged : {"", "no zstd", "\x28\xb5\x2f\xfd"}) {
    ASSERT_TRUE(database_->execute(
        "update log_chunks set packed = :packed where packed is not null", store::Blob{damaged}));
    EXPECT_EQ(
        texts(read_all(insight_, 10)),
        (std::vector<std::string>{"[lockstep: 2 lines are damaged in the store]", "after it"}));
  }
}

TEST_F(LogTest, EmptyLinesCountToo) {
  Insight strict(*database_, *series_, {.log = 10_KiB});
  for (int i = 0; i < 1000; ++i) say(strict, "");
  EXPECT_LE(
      std::get<0>(database_->rows<std::int64_t>("select count(*) from log_chunks").value()[0]),
      10 * 1024 / 64);
}

TEST_F(LogTest, ExpiredLinesGoSliceBySliceAndLeaveOneLine) {
  for (int i = 0; i < 300; ++i) say(insight_, "line");
  int slices = 1;
  while (insight_.expire_log(kRun).value()) ++slices;
  EXPECT_GT(slices, 2);
  const auto left = read_all(insight_, 10);
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_THAT(left[0].text, HasSubstr("300 lines before this were removed"));
  EXPECT_FALSE(insight_.expire_log(kRun).value());
  EXPECT_FALSE(insight_.expire_log({"demo", 77}).value());
  say(insight_, "again");
  EXPECT_THAT(texts(read_all(insight_, 10)), ElementsAre(left[0].text, "again"));
}

}  // namespace
}  // namespace lockstep::insight
