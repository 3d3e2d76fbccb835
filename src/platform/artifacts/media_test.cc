#include "platform/artifacts/media.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder_for_test.h"

namespace lockstep::artifacts {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

const model::RunId kMediaRun{"demo", 1};
constexpr std::string_view kPng = "\x89PNG\r\n\x1a\nfirst";
constexpr std::string_view kJpeg = "\xff\xd8\xffsecond";

class MediaTest : public ::testing::Test {
 protected:
  const TemporaryFolder home_;
  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  Artifacts artifacts_{*database_, home_.path() / "artifacts", "incoming-media"};
  Media media_{*database_, artifacts_};
};

TEST_F(MediaTest, AnImageIsAnArtifactAndReplacesTheOneOfItsPlace) {
  const MediaKey key{.name = "samples/a", .step = 7, .rank = 1};
  ASSERT_TRUE(media_.add_image(kMediaRun, {key, Time{}, "old"}, kPng));
  const auto sha256 = media_.add_image(kMediaRun, {key, Time{}, "new"}, kPng);
  ASSERT_TRUE(sha256) << sha256.error().message;
  ASSERT_TRUE(media_.add_image(kMediaRun, {{"samples/a", 7, 1, 1}, Time{}}, kJpeg));
  const auto images = media_.images(kMediaRun, {}).value();
  ASSERT_THAT(images, SizeIs(2));
  EXPECT_EQ(images[0].key, key);
  EXPECT_EQ(images[0].caption, "new");
  EXPECT_EQ(images[0].sha256, *sha256);
  EXPECT_EQ(images[0].path, "images/samples/a/7-1-0.png");
  EXPECT_EQ(images[1].path, "images/samples/a/7-1-1.jpg");
  EXPECT_EQ(media_.image_file(kMediaRun, key).value(), kPng);
  EXPECT_EQ(media_.image_file(kMediaRun, {"samples/a", 8, 1}).error().code, Code::not_found);
}

TEST_F(MediaTest, ANameThatIsNoPathIsReplacedByItsDigest) {
  ASSERT_TRUE(media_.add_image(kMediaRun, {{"../secret", 1}, Time{}}, kPng));
  const auto images = media_.images(kMediaRun, {.name = "../secret"}).value();
  ASSERT_THAT(images, SizeIs(1));
  EXPECT_THAT(images[0].path, ::testing::MatchesRegex("images/[0-9a-f]{64}/1-0-0.png"));
}

TEST_F(MediaTest, AFileThatMayHaveAProgramIsRefused) {
  EXPECT_EQ(media_.add_image(kMediaRun, {{"a", 1}, Time{}}, "<svg/>").error().code, Code::invalid);
  EXPECT_EQ(media_.add_image(kMediaRun, {{"", 1}, Time{}}, kPng).error().code, Code::invalid);
}

TEST_F(MediaTest, HistogramsComeBackByNameRankAndStep) {
  for (const std::int64_t step : {3, 1, 2})
    ASSERT_TRUE(media_.add_histogram(kMediaRun, {{"w", step}, Time{}, {0, 0.5, 1}, {1, 2}}));
  ASSERT_TRUE(media_.add_histogram(kMediaRun, {{"w", 1, 4}, Time{}, {0, 1}, {9}}));
  const auto later =
      media_.histograms(kMediaRun, {.name = "w", .rank = 0, .after_step = 1}).value();
  ASSERT_THAT(later, SizeIs(2));
  EXPECT_EQ(later[0].key.step, 2);
  EXPECT_THAT(later[0].edges, ElementsAre(0, 0.5, 1));
  EXPECT_THAT(later[0].counts, ElementsAre(1, 2));
  EXPECT_THAT(media_.histograms(kMediaRun, {.most = 2, .skip = 3}).value(), SizeIs(1));
}

TEST_F(MediaTest, BinsThatAreNoneAreRefused) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const LoggedHistogram& bad : {LoggedHistogram{{"w", 1}, Time{}, {0, 1}, {}},
                                     LoggedHistogram{{"w", 1}, Time{}, {0, 1}, {1, 2}},
                                     LoggedHistogram{{"w", 1}, Time{}, {1, 0}, {1}},
                                     LoggedHistogram{{"w", 1}, Time{}, {0, infinite}, {1}}})
    EXPECT_FALSE(media_.add_histogram(kMediaRun, bad));
}

}  // namespace
}  // namespace lockstep::artifacts
