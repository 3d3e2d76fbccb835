// Removal of reports that are too old, too large, or of a removed run; the reserve of the disk.
#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/os/fd.h"
#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "platform/insight/ids_for_test.h"
#include "platform/insight/insight.h"
#include "platform/insight/series/folder_series.h"
#include "platform/store/sql_store.h"

namespace lockstep::insight {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RetentionTest : public ::testing::Test {
 protected:
  static model::RunId id_of(int number) { return {"demo", number}; }
  void add_run(int number, std::optional<Time> ended) {
    model::Run run;
    run.id = id_of(number);
    run.state = ended ? model::RunState::failed : model::RunState::queued;
    run.ended = ended;
    ASSERT_TRUE(store::SqlStore(*database_).commit(std::vector<model::Change>{run}));
  }
  Result<std::int64_t> report(int number, spool::TelemetryItem item) {
    item.sequence = ++sequence_;
    return insight_.ingest(node_of(1, id_of(number)), std::vector{std::move(item)});
  }
  void say(int number, std::size_t bytes) {
    ASSERT_TRUE(
        report(number, {.kind = spool::TelemetryKind::log, .text = std::string(bytes, 'x')}));
  }
  void log(int number, int steps) {
    for (int step = 0; step < steps; ++step)
      ASSERT_TRUE(report(number, {.kind = spool::TelemetryKind::metrics,
                                  .step = step,
                                  .values = {{"loss", 0.5}, {"lr", 0.1}}}));
  }
  bool has_lines(int number) {
    return !insight_.log(id_of(number), {.rank = {}}).value().lines.back().text.starts_with("[");
  }
  bool has_points(int number) { return !insight_.series(id_of(number)).value().series.empty(); }

  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  TemporaryFolder folder_;
  std::unique_ptr<SeriesStore> series_ = open_folder_series(folder_ / "series").value();
  Insight insight_{*database_, *series_};
  std::int64_t sequence_ = 0;
};

TEST_F(RetentionTest, TheOldestEndedRunMakesRoomFirstAndThenTheLargestOpenOne) {
  for (int number : {1, 2, 3, 4}) {
    add_run(number, number == 2 || number == 3 ? std::optional(Time(Duration(9))) : std::nullopt);
    say(number, number == 4 ? 90 : 30);
    log(number, 2);
  }
  std::vector<std::string> order;
  std::set<std::string> gone;
  const auto look = [&](const std::string& what, bool there) {
    if (!there && gone.insert(what).second) order.push_back(what);
  };
  while (insight_.free_some().value())
    for (int number : {1, 2, 3, 4}) {
      look(std::string("lines ") + std::to_string(number), has_lines(number));
      look(std::string("points ") + std::to_string(number), has_points(number));
    }
  EXPECT_THAT(order, ElementsAre("lines 2", "lines 3", "lines 4", "lines 1"));
  for (int number : {1, 2, 3, 4}) EXPECT_TRUE(has_points(number)) << "they are not in the database";
}

TEST_F(RetentionTest, RemovedPointsAreCountedAndTheLatestValuesStay) {
  add_run(1, Time(Duration(9)));
  log(1, 300);
  while (insight_.expire_points(id_of(1)).value()) {
  }
  const api::SeriesList page = insight_.series(id_of(1)).value();
  EXPECT_THAT(page.series, IsEmpty());
  EXPECT_EQ(page.removed, 600);
  EXPECT_EQ(insight_.summary(id_of(1)).value().latest.at("loss"), 0.5);
  log(1, 5);  // it was resumed
  EXPECT_EQ(insight_.series(id_of(1)).value().series[0].total, 5);
  while (insight_.expire_points(id_of(1)).value()) {
  }
  EXPECT_EQ(insight_.series(id_of(1)).value().removed, 610);
}

TEST_F(RetentionTest, OfARemovedRunNothingIsLeftAndOthersKeepTheirs) {
  for (int number : {1, 2}) {
    say(number, 100'000);
    log(number, 100);
    ASSERT_TRUE(report(number, {.kind = spool::TelemetryKind::checkpoint, .text = "/c"}));
    ASSERT_TRUE(report(number, {.kind = spool::TelemetryKind::event, .text = "slow"}));
  }
  while (insight_.remove(id_of(1)).value()) {
  }
  for (const auto* table :
       {"run_counters", "latest_metrics", "events", "checkpoints", "progress", "spools"}) {
    const auto numbers =
        database_->rows<std::int64_t>(std::string("select distinct number from ") + table).value();
    EXPECT_THAT(numbers, ElementsAre(std::tuple(2))) << table;
  }
  const auto orphans =
      database_
          ->rows<std::int64_t>(
              "select count(*) from log_chunks where counters not in (select id from "
              "run_counters)")
          .value();
  EXPECT_EQ(std::get<0>(orphans[0]), 0);
  EXPECT_TRUE(has_lines(2) && has_points(2));
}

TEST_F(RetentionTest, RunsWithoutNewPointsMakeRoomWhenAllTakeTooMuch) {
  add_run(1, Time(Duration(9)));
  series_.reset();
  series_ = open_folder_series(folder_ / "series", {.seal = 1_B}).value();
  Insight insight(*database_, *series_);
  for (int step = 0; step < 100; ++step)
    ASSERT_TRUE(insight.ingest(
        node_of(1, id_of(1)),
        std::vector<spool::TelemetryItem>{{.sequence = step + 1,
                                           .kind = spool::TelemetryKind::metrics,
                                           .step = step,
                                           .values = {{"loss", 0.5}, {"lr", 0.1}}}}));
  ASSERT_TRUE(insight.limit_points(1_MiB));
  EXPECT_EQ(insight.series(id_of(1)).value().removed, 0);
  const Deadline deadline = Deadline::after(std::chrono::seconds(60));
  // Points are sealed when others follow.
  for (int step = 1; insight.series(id_of(1)).value().removed == 0; ++step) {
    ASSERT_FALSE(deadline.passed());
    ASSERT_TRUE(insight.ingest(node_of(1, id_of(2)), std::vector<spool::TelemetryItem>{
                                                         {.sequence = step,
                                                          .kind = spool::TelemetryKind::metrics,
                                                          .step = step,
                                                          .values = {{"loss", 0.5}}}}));
    ASSERT_TRUE(insight.limit_points(0_B));
  }
  EXPECT_EQ(insight.series(id_of(1)).value().removed, 200);
}

// A file system of 2 MiB for this process alone; false without root.
bool mount_small(const std::filesystem::path& folder) {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=2m") == 0;
}

// Empty if all is well.
std::string use_up_disk(const std::filesystem::path& folder) {
  auto database = store::Database::open(folder / "lockstep.db").value();
  const auto series = open_folder_series(folder / "series").value();
  Insight insight(*database, *series);
  const std::vector<spool::TelemetryItem> items = {{.sequence = 1, .text = "line"}};
  const Bytes reserve(database->disk_space()->total.count() / 20);
  const std::string page(4096, 'b');
  const auto ballast = open_file(folder / "ballast", O_WRONLY | O_CREAT);
  while (database->disk_space()->free >= reserve)
    if (::write(ballast->get(), page.data(), page.size()) < 0) return "the disk is full";
  const auto refused = insight.ingest(kNode, items);
  if (refused || refused.error().code != Code::exhausted) return "a line was taken";
  if (refused.error().message.find("for the states of runs") == std::string::npos)
    return refused.error().message;
  model::Run run;
  run.id = {"demo", 1};
  if (auto done = store::SqlStore(*database).commit(std::vector<model::Change>{run}); !done)
    return "the state: " + done.error().message;
  if (::ftruncate(ballast->get(), 0) != 0) return "ftruncate failed";
  const auto taken = insight.ingest(kNode, items);
  return taken ? "" : "with room again: " + taken.error().message;
}

TEST(Reserve, LinesAreRefusedBeforeTheStatesOfRunsFindNoRoom) {
  const TemporaryFolder folder;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string words = mount_small(folder) ? use_up_disk(folder) : "skip";
    (void)write_all(ends[1], words);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string words(4096, ' ');
  words.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(ends[0], words.data(), 4096))));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  if (words == "skip") GTEST_SKIP() << "mounting a file system takes root";
  EXPECT_EQ(words, "");
}

}  // namespace
}  // namespace lockstep::insight
