#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"
#include "base/random.h"
#include "base/result.h"
#include "base/temporary_folder_for_test.h"
#include "base/units.h"

namespace lockstep {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error{Code::invalid, format("{} is odd", n)};
  return n / 2;
}
Result<int> quarter(int n) { return TRY(half(TRY(half(n)))); }
Result<void> check_even(int n) {
  TRY(half(n));
  return {};
}

TEST(Result, TryGivesTheValueOrReturnsTheError) {
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
  EXPECT_TRUE(check_even(2).has_value());
  EXPECT_FALSE(check_even(3).has_value());
}

TEST(Result, AnErrorTellsWhatWasTriedFromOneLevelUp) {
  Error error = quarter(6).error();
  EXPECT_EQ(std::move(error).with_context("quartering").message, "quartering: 3 is odd");
}

TEST(ResultDeathTest, TakingTheValueOfAnErrorAborts) { EXPECT_DEATH(half(1).value(), "1 is odd"); }

TEST(UnitBuilder, DurationsAreReadAsUsersWriteThem) {
  EXPECT_EQ(*parse_duration("90s"), std::chrono::seconds(90));
  EXPECT_EQ(*parse_duration("1h30m"), std::chrono::minutes(90));
  EXPECT_EQ(*parse_duration("1h 30m"), std::chrono::minutes(90));
  EXPECT_EQ(*parse_duration("0.5s"), std::chrono::milliseconds(500));
  for (const char* wrong : {"", "s", "10", "10 parsecs", "-5s", "1e300h", "5m3"})
    EXPECT_FALSE(parse_duration(wrong)) << wrong;
}

TEST(UnitBuilder, DurationsAreShownWithoutDecimalsThatSayNothing) {
  EXPECT_EQ(text(Duration(0)), "0s");
  EXPECT_EQ(text(std::chrono::seconds(46)), "46s");
  EXPECT_EQ(text(std::chrono::milliseconds(1500)), "1.5s");
  EXPECT_EQ(text(std::chrono::milliseconds(200)), "200ms");
  EXPECT_EQ(text(std::chrono::minutes(90)), "1h 30m");
  EXPECT_EQ(text(std::chrono::hours(2)), "2h");
  EXPECT_EQ(text(std::chrono::hours(24 * 365)), "365d");
}

TEST(UnitBuilder, BytesAndBandwidthsRoundTripThroughText) {
  EXPECT_EQ(*parse_bytes("4 GiB"), 4_GiB);
  EXPECT_EQ(text(1536_KiB), "1.5 MiB");
  EXPECT_EQ(*parse_bandwidth("10 Gbit/s"), 10_Gbit);
  EXPECT_EQ(text(10_Gbit), "10.0 Gbit/s");
  EXPECT_EQ(*parse_bandwidth("50 GB/s"), 400_Gbit);
}

TEST(UnitBuilder, TimesRoundTripThroughText) {
  for (const char* words :
       {"2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000250Z", "0194-01-22T11:31:57Z"})
    EXPECT_EQ(text(*parse_time(words)), words);
  EXPECT_FALSE(parse_time("yesterday"));
}

TEST(Random, TheStreamOfASeedIsFixed) {
  Random a(1), b(1), c(2);
  EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(a.next(), c.next());
  for (int i = 0; i < 1000; ++i) EXPECT_LT(a.below(7), 7u);
}

// In a folder with other writers, another user could put a link at the temporary file's name.
TEST(Files, WritingFollowsNoLinkOfATemporaryName) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "precious", "kept"));
  std::filesystem::create_symlink(folder / "precious", folder / format("x.{}.tmp", ::getpid()));
  ASSERT_TRUE(write_file(folder / "x", "content"));
  EXPECT_EQ(read_file(folder / "precious").value(), "kept");
  EXPECT_EQ(read_file(folder / "x").value(), "content");
}

TEST(Files, AFileIsReplacedWholeAndAMissingOneIsNamed) {
  auto folder = std::filesystem::temp_directory_path() / format("ls-base-{}", ::getpid());
  ASSERT_TRUE(make_folders(folder / "a" / "b"));
  ASSERT_TRUE(write_file(folder / "a" / "b" / "x", "one"));
  ASSERT_TRUE(write_file(folder / "a" / "b" / "x", "two"));
  EXPECT_EQ(*read_file(folder / "a" / "b" / "x"), "two");
  auto missing = read_file(folder / "none");
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_NE(missing.error().message.find("none"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep
