#include "platform/spool/spool.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "platform/spool/abandoned_spool.h"

namespace lockstep::spool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SpoolTest : public testing::Test {
 protected:
  std::filesystem::path file() const { return folder_ / "spool"; }
  Spool spool(Spool::Limits limits = {}) const { return *Spool::open(file(), limits); }
  // All items that a janitor would find.
  std::vector<TelemetryItem> left() const {
    auto spool = *AbandonedSpool::open(file());
    return *spool.batch(0, 1_GiB);
  }

  const TemporaryFolder folder_;
};

TelemetryItem log_item(int rank, std::string text) {
  return {.kind = TelemetryKind::log, .rank = rank, .text = std::move(text)};
}

TelemetryItem metrics_item(std::int64_t step) {
  return {.kind = TelemetryKind::metrics, .step = step, .values = {{"loss", 1.5}}};
}

std::vector<std::int64_t> sequences(const std::vector<TelemetryItem>& items) {
  std::vector<std::int64_t> all;
  for (const auto& item : items) all.push_back(item.sequence);
  return all;
}

// Simulates a full disk during its lifetime: files of this process may not grow beyond `most`.
class FullDisk {
 public:
  explicit FullDisk(rlim_t most) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{most, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(SpoolTest, ItemsAreGivenInOrderUntilTheyAreAcknowledged) {
  Spool items = spool();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(items.add(metrics_item(i)));
  EXPECT_EQ(items.batch(1_B).size(), 1u);
  EXPECT_EQ(items.batch(1_MiB, 2).size(), 2u);
  const auto all = items.batch(1_MiB);
  EXPECT_EQ(sequences(all), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(all[2].step, 2);
  items.acknowledge(2);
  EXPECT_EQ(items.batch(1_MiB).front().sequence, 3);
  items.acknowledge(3);
  EXPECT_TRUE(items.empty());
  EXPECT_EQ(std::filesystem::file_size(file()), 0u);
}

TEST_F(SpoolTest, WhatWasNotSentIsNotAcknowledged) {
  Spool items = spool();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(items.add(metrics_item(i)));
  EXPECT_EQ(items.batch(1_B).size(), 1u);
  items.acknowledge(1'000'000);
  EXPECT_EQ(sequences(items.batch(1_MiB)), (std::vector<std::int64_t>{2, 3}));
}

TEST_F(SpoolTest, TheOldestLinesGiveWayAndAMarkStandsWhereTheyStood) {
  Spool items = spool({.logs = 64_KiB, .garbage = 16_KiB});
  ASSERT_TRUE(items.add(metrics_item(0)));
  const int total = 1000;
  for (int i = 0; i < total; ++i)
    ASSERT_TRUE(items.add(log_item(1, format("{} {}", i, std::string(200, 'x')))));
  ASSERT_TRUE(items.add(metrics_item(1)));

  const auto all = items.batch(10_MiB);
  ASSERT_GE(all.size(), 4u);
  EXPECT_EQ(all.front().kind, TelemetryKind::metrics);
  EXPECT_EQ(all.back().kind, TelemetryKind::metrics);
  const int kept = static_cast<int>(all.size()) - 3;
  EXPECT_THAT(all[1].text,
              AllOf(HasSubstr(format("{} lines", total - kept)), HasSubstr("rank-1.log")));
  EXPECT_TRUE(all[2].text.starts_with(format("{} x", total - kept)));
  EXPECT_EQ(all[2].sequence, all[1].sequence + 1);
  EXPECT_EQ(all.back().sequence, total + 2);
  EXPECT_LT(std::filesystem::file_size(file()), 200'000u);
  EXPECT_EQ(sequences(left()), sequences(all));
}

TEST_F(SpoolTest, TheMarkOfDroppedLinesNeedsNoLaterLineOfThatRank) {
  Spool items = spool({.logs = 8_KiB, .garbage = 1_MiB});
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(items.add(log_item(1, format("early {}", i))));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(items.add(log_item(2, std::string(500, 'y'))));
  const auto all = items.batch(1_MiB);
  EXPECT_EQ(all[0].rank, 1);
  EXPECT_THAT(all[0].text, AllOf(HasSubstr("5 lines"), HasSubstr("rank-1.log")));
  EXPECT_EQ(all[1].rank, 2);
  EXPECT_EQ(sequences(left()), sequences(all));
}

TEST_F(SpoolTest, WhatWasSentIsNotDropped) {
  Spool items = spool({.logs = 8_KiB, .garbage = 1_KiB});
  ASSERT_TRUE(items.add(log_item(0, "first")));
  ASSERT_EQ(items.batch(1_KiB).size(), 1u);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(items.add(log_item(0, std::string(500, 'y'))));
  EXPECT_EQ(items.batch(1_KiB).front().text, "first");
}

TEST_F(SpoolTest, MetricsBeyondTheirLimitAreRefusedAndCountedAndCheckpointsAreNot) {
  Spool items = spool({.reports = 1_KiB});
  int refused = 0;
  for (int i = 0; i < 100; ++i) refused += items.add(metrics_item(i)) ? 0 : 1;
  EXPECT_GT(refused, 80);
  EXPECT_TRUE(items.add({.kind = TelemetryKind::checkpoint}));
  const auto all = items.batch(1_MiB);
  ASSERT_GE(all.size(), 2u);
  EXPECT_EQ(all.back().kind, TelemetryKind::checkpoint);
  EXPECT_TRUE(all[all.size() - 2].text.starts_with(format(
      "[lockstep: {} reports (metrics, progress, checkpoints, events) were lost here: ", refused)));
}

TEST_F(SpoolTest, TelemetryHasALimitOfItsOwnAndItsLossIsNoLineOfARank) {
  Spool out = spool({.reports = 300_B, .telemetry = 300_B});
  TelemetryItem reading = metrics_item(1'790'000'000);
  reading.kind = TelemetryKind::telemetry;
  int kept = 0;
  while (out.add(reading)) ++kept;
  EXPECT_EQ(out.add(reading).error().code, Code::exhausted);
  EXPECT_TRUE(out.add(metrics_item(1))) << "metrics of ranks go on";
  const auto items = out.batch(1_MiB);
  ASSERT_EQ(items.size(), static_cast<std::size_t>(kept) + 1);
  for (const TelemetryItem& item : items) EXPECT_NE(item.kind, TelemetryKind::log);
  EXPECT_EQ(items.back().kind, TelemetryKind::metrics);
  out.acknowledge(items.back().sequence);
  EXPECT_TRUE(out.add(reading)) << "there is room again";
}

TEST_F(SpoolTest, WhatAFullDiskDoesNotTakeIsCountedAndSaidOnceThereIsSpace) {
  Spool items = spool();
  ASSERT_TRUE(items.add(log_item(3, "before")));
  {
    FullDisk full(std::filesystem::file_size(file()));
    EXPECT_FALSE(items.add(log_item(3, "1\n2\n3\n4\n5\n6\n" + std::string(1000, '7'))));
    EXPECT_FALSE(items.add(log_item(3, "small, and after what is lost")));
    EXPECT_EQ(sequences(items.batch(1_MiB)), std::vector<std::int64_t>{1});
  }
  const auto all = items.batch(1_MiB);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE(all[1].text.starts_with("[lockstep: 8 lines were lost here: writing the spool: "))
      << all[1].text;
  EXPECT_EQ(all[1].rank, 3);
  EXPECT_EQ(sequences(left()), sequences(all));
}

TEST_F(SpoolTest, AFullDiskDoesNotStopAcknowledgingNorLeaveACopyBehind) {
  Spool items = spool({.garbage = 1_KiB});
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(items.add(metrics_item(i)));
  {
    FullDisk full(100);
    items.batch(1_MiB);
    items.acknowledge(80);
    EXPECT_EQ(sequences(items.batch(1_MiB)).size(), 20u);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "spool.tmp"));
  }
  items.acknowledge(100);
  EXPECT_TRUE(items.empty());
}

TEST_F(SpoolTest, WhatTheDaemonRefusesGivesWayToAMarkAndARefusedMarkToNothing) {
  Spool items = spool();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(items.add(metrics_item(i)));
  items.batch(1_MiB);
  items.reject(2, "step: too large");
  auto all = items.batch(1_MiB);
  ASSERT_EQ(sequences(all), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_THAT(all[1].text, AllOf(HasSubstr("refused"), HasSubstr("metrics"), HasSubstr("step 1"),
                                 HasSubstr("step: too large")));
  EXPECT_EQ(sequences(left()), sequences(all));
  items.reject(2, "again");
  EXPECT_EQ(sequences(items.batch(1_MiB)), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(sequences(left()), (std::vector<std::int64_t>{1, 3}));
}

TEST_F(SpoolTest, BytesThatAreNotUtf8AreReplaced) {
  Spool items = spool();
  ASSERT_TRUE(items.add(log_item(0, std::string("a\xff\0b", 4))));
  EXPECT_EQ(items.batch(1_KiB).front().text, std::string("a\xef\xbf\xbd\0b", 6));
}

// --- Leftovers of a killed agent ---

TEST_F(SpoolTest, WhatIsLeftIsReadAfterASequenceInBoundedBatches) {
  {
    Spool items = spool();
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(items.add(metrics_item(i)));
    items.batch(1_MiB);
    items.acknowledge(4);
  }
  auto left = *AbandonedSpool::open(file());
  std::vector<std::int64_t> got;
  std::int64_t after = 6;
  for (auto some = *left.batch(after, 300_B); !some.empty(); some = *left.batch(after, 300_B)) {
    EXPECT_LE(some.size(), 3u);
    for (const auto& item : some) got.push_back(item.sequence);
    after = got.back();
  }
  EXPECT_EQ(got, (std::vector<std::int64_t>{7, 8, 9, 10}));
  EXPECT_EQ(left.broken_lines(), 0);
}

TEST_F(SpoolTest, ATornLastLineIsNoItem) {
  {
    Spool items = spool();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(items.add(metrics_item(i)));
  }
  const auto whole = std::filesystem::file_size(file());
  const auto line = whole / 3;
  for (std::uintmax_t size = whole - 1; size >= whole - line; --size) {
    std::filesystem::resize_file(file(), size);
    EXPECT_EQ(sequences(left()), (std::vector<std::int64_t>{1, 2})) << size;
  }
}

TEST_F(SpoolTest, LinesThatCannotBeReadAreLeftOutAndCounted) {
  {
    Spool items = spool();
    ASSERT_TRUE(items.add(metrics_item(0)));
  }
  Fd end = *open_file(file(), O_WRONLY | O_APPEND);
  ASSERT_TRUE(write_all(end.get(),
                        "nonsense\n7 {\"kind\":\n8 {\"kind\":\"dance\",\"sequence\":8}\n"
                        "9 {\"kind\":\"log\",\"sequence\":3}\n\n" +
                            std::string(100, '\0') + "\n"));
  {
    auto left = *AbandonedSpool::open(file());
    EXPECT_EQ(sequences(*left.batch(0, 1_MiB)), std::vector<std::int64_t>{1});
    EXPECT_EQ(left.broken_lines(), 6);
  }
}

TEST_F(SpoolTest, WhatAnEarlierAgentWroteIsReadWordForWord) {
  ASSERT_TRUE(write_file(
      file(), R"(7 {"kind":"log","rank":3,"sequence":7,"step":0,"steps":0,"text":"one\ntwo",)"
              R"("time":"2026-11-21T10:00:00Z","values":{}})"
              "\n"
              R"(8 {"kind":"metrics","rank":0,"sequence":8,"step":12,"steps":0,"text":"",)"
              R"("time":"2026-11-21T10:00:00.25Z","values":{"loss":"Infinity"}})"
              "\n"));
  const auto items = left();
  ASSERT_EQ(sequences(items), (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(items[0].kind, TelemetryKind::log);
  EXPECT_EQ(line_count(items[0]), 2);
  EXPECT_EQ(items[1].values.at("loss"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(items[1].time - items[0].time, std::chrono::milliseconds(250));
}

TEST_F(SpoolTest, NoFileAndAnEmptyOneAreToldApart) {
  EXPECT_EQ(AbandonedSpool::open(file()).error().code, Code::not_found);
  spool();
  EXPECT_TRUE(left().empty());
}

}  // namespace
}  // namespace lockstep::spool
