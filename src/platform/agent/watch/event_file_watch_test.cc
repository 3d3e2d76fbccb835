#include "platform/agent/watch/event_file_watch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr Time kThen{std::chrono::seconds(1'790'000'000)};

// This process is the rank.
class EventFileWatchTest : public ::testing::Test {
 protected:
  static std::string scalar(std::int64_t step, std::string_view tag, double value) {
    return event_file::scalar_record({step, kThen, tag, value});
  }
  Fd create(const std::string& name, int flags) const {
    return open_file(folder_.path() / name, flags | O_CREAT).value();
  }
  static void write(const Fd& file, std::string_view bytes) {
    ASSERT_TRUE(write_all(file.get(), bytes));
  }

  const TemporaryFolder folder_;
  EventFileWatch watch_{4, {::getpid()}, folder_.path() / "media"};
};

TEST_F(EventFileWatchTest, AFileThatARankWritesIsReadAsItGrowsAndToItsEnd) {
  Fd file = create("events.out.tfevents.1.host", O_WRONLY);
  const std::string late = scalar(2, "loss", 0.25);
  write(file, event_file::first_record(kThen) + scalar(1, "loss", 0.5) + scalar(1, "lr", 0.1) +
                  late.substr(0, 20));
  const auto items = watch_.poll();
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].rank, 4);
  EXPECT_EQ(items[0].step, 1);
  EXPECT_EQ(items[0].time, kThen);
  EXPECT_THAT(items[0].values, ElementsAre(Pair("loss", 0.5), Pair("lr", 0.1)));
  write(file, late.substr(20));
  file = Fd();
  const auto rest = watch_.finish();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].step, 2);
}

TEST_F(EventFileWatchTest, AFileThatIsOnlyReadIsOfAnotherRun) {
  write(create("events.out.tfevents.1.host", O_WRONLY), scalar(1, "loss", 0.5));
  const Fd file = create("events.out.tfevents.1.host", O_RDONLY);
  EXPECT_THAT(watch_.poll(), IsEmpty());
}

TEST_F(EventFileWatchTest, HistogramsWaitInTheFolderOfMedia) {
  const Fd file = create("events.out.tfevents.1.host", O_WRONLY);
  write(file, event_file::histogram_record({3, kThen, "w", {0, 1, 4}, {5, 6}}));
  EXPECT_THAT(watch_.poll(), IsEmpty());
  const auto media = list_folder(folder_.path() / "media").value();
  ASSERT_EQ(media.size(), 1u);
  EXPECT_NE(read_file(media[0]).value().find(R"("name":"w")"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::agent
