#include "platform/server/janitor/janitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/file_lock.h"
#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "net/crypto.h"
#include "platform/host/node_files.h"
#include "platform/insight/series/folder_series.h"
#include "platform/spool/spool.h"
#include "platform/store/sql_store.h"

namespace lockstep::server {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const model::RunId kRun{"demo", 1};
const model::NodeId kNode{{kRun, 1}, 0};
constexpr Duration kDay = std::chrono::hours(24);

class SetClock : public Clock, public SteadyClock {
 public:
  Time now() const override { return kBeginning + passed_ + set_by_; }
  Duration since_boot() const override { return passed_; }
  std::string boot_id() const override { return "first"; }
  void pass(Duration duration) { passed_ += duration; }
  void set(Duration by) { set_by_ += by; }

 private:
  static constexpr Time kBeginning{Duration(1'790'000'000'000'000)};
  Duration passed_{}, set_by_{};
};

class JanitorTest : public ::testing::Test {
 protected:
  JanitorTest() { add_node(kNode, model::AttemptState::ended); }

  void add_node(const model::NodeId& id, model::AttemptState attempt_state) {
    const model::AttemptId& attempt = id.attempt;
    auto& run = state_.runs[attempt.run];
    run.id = attempt.run;
    run.epoch = attempt.epoch;
    run.state = attempt_state == model::AttemptState::ended ? model::RunState::failed
                                                            : model::RunState::running;
    if (model::is_final(run.state)) run.ended = clock_.now();
    state_.attempts[attempt].id = attempt;
    state_.attempts[attempt].state = attempt_state;
    model::Node node;
    node.id = id;
    state_.nodes[id] = node;
    store(run);
    ASSERT_TRUE(store_.commit(std::vector<model::Change>{state_.attempts[attempt], node}));
  }
  void store(const model::Run& run) { ASSERT_TRUE(store_.commit(std::vector<model::Change>{run})); }
  void log_point(std::int64_t sequence) {
    const std::vector<spool::TelemetryItem> items = {{.sequence = sequence,
                                                      .kind = spool::TelemetryKind::metrics,
                                                      .step = sequence,
                                                      .values = {{"loss", 0.5}}}};
    ASSERT_TRUE(insight_.ingest({"", kNode}, items));
  }
  bool has_points() { return !insight_.series(kRun).value().series.empty(); }
  void rounds(Janitor& janitor, int hours) {
    for (int i = 0; i < hours; ++i) {
      clock_.pass(std::chrono::hours(1));
      for (int slice = 0; slice < 10; ++slice) janitor.run_slice();
    }
  }

  host::NodeFiles files(const model::NodeId& node = kNode) const {
    return {host::node_folder(home_, {"", node})};
  }
  // The socket folders of the token; each test has its own token, so no folder of the machine
  // matches.
  fs::path sockets(const model::NodeId& node = kNode) const {
    return host::socket_folders(token(node)).back();
  }
  std::string token(const model::NodeId& node) const {
    return home_.path().string() + ":" + text(node);
  }

  // Creates all files that a killed agent leaves; its spool has these lines, from the first
  // sequence on.
  void leave(const model::NodeId& node, const std::vector<std::string>& lines) {
    const host::NodeFiles left = files(node);
    ASSERT_TRUE(make_folders(left.flight()));
    ASSERT_TRUE(write_file(left.flight() / "rank-0.world.flight", "x"));
    for (const auto& file :
         {left.launch_file(), left.secret(), left.lock(), left.agent_log(),
          fs::path(left.agent_log().string() + ".1"), left.delivered_flight(), left.rank_log(0),
          left.rank_log(17), fs::path(left.rank_log(17).string() + ".1"),
          fs::path(left.spool().string() + ".tmp")})
      ASSERT_TRUE(write_file(file, "x"));
    ASSERT_TRUE(make_folders(sockets(node)));
    ASSERT_TRUE(write_file(host::report_socket(sockets(node), 0), ""));
    auto spool = spool::Spool::open(left.spool(), {});
    for (const auto& line : lines) ASSERT_TRUE(spool->add({.text = line}));
  }
  std::vector<std::string> lines(const model::RunId& run = kRun) {
    std::vector<std::string> texts;
    const auto page = insight_.log(run, {.rank = {}}).value();
    for (const auto& line : page.lines) texts.push_back(line.text);
    return texts;
  }
  std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    const auto found = list_folder(folder).value_or(std::vector<fs::path>());
    for (const auto& path : found) names.push_back(path.filename().string());
    return names;
  }

  std::unique_ptr<Janitor> janitor() {
    return std::make_unique<Janitor>(
        JanitorSetup{.state = state_,
                     .insight = insight_,
                     .database = *database_,
                     .clock = clock_,
                     .steady = clock_,
                     .home = home_,
                     .token_of = [this](const model::NodeName& node) { return token(node.id); }});
  }
  // Runs slices until the node's launch file is gone.
  void work(Janitor& janitor, const model::NodeId& node = kNode) {
    for (Deadline deadline = Deadline::after(std::chrono::seconds(10));
         fs::exists(files(node).launch_file()); ::usleep(1000)) {
      ASSERT_FALSE(deadline.passed());
      janitor.run_slice();
    }
  }

  const TemporaryFolder home_;
  SetClock clock_;
  model::State state_;
  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  store::SqlStore store_{*database_};
  std::unique_ptr<insight::SeriesStore> series_ =
      insight::open_folder_series(home_.path() / "series").value();
  insight::Insight insight_{*database_, *series_};
};

TEST_F(JanitorTest, WhatAKilledAgentLeftIsStoredAndThenRemoved) {
  leave(kNode, {"one", "two"});
  auto janitor = this->janitor();
  work(*janitor);
  EXPECT_THAT(lines(), ElementsAre("one", "two"));
  EXPECT_THAT(names_in(files().folder),
              ElementsAre("agent.lock", "agent.log", "agent.log.1", "flight", "flight.json",
                          "rank-0.log", "rank-17.log", "rank-17.log.1"));
  EXPECT_FALSE(fs::exists(sockets()));
}

TEST_F(JanitorTest, SocketsGoEvenIfTheRunsFolderWasRemovedByHand) {
  leave(kNode, {"one"});
  fs::remove_all(files().folder);
  auto janitor = this->janitor();
  janitor->queue_ended_nodes(kRun);
  for (Deadline deadline = Deadline::after(std::chrono::seconds(10));
       fs::exists(sockets()) && !deadline.passed(); ::usleep(1000))
    janitor->run_slice();
  EXPECT_FALSE(fs::exists(sockets()));
}

TEST_F(JanitorTest, WhatTheDaemonHadStoredAlreadyCountsOnce) {
  leave(kNode, {"one", "two", "three"});
  const std::vector<spool::TelemetryItem> sent = {{.sequence = 1, .text = "one"},
                                                  {.sequence = 2, .text = "two"}};
  ASSERT_TRUE(insight_.ingest({"", kNode}, sent));
  auto janitor = this->janitor();
  work(*janitor);
  EXPECT_THAT(lines(), ElementsAre("one", "two", "three"));
}

TEST_F(JanitorTest, ALargeSpoolTakesManySlicesAndAKillBetweenThemLosesAndDoublesNothing) {
  std::vector<std::string> said;
  for (int i = 0; i < 200; ++i) said.push_back(std::string(5000, 'x') + std::to_string(i));
  leave(kNode, said);
  for (std::size_t stored = 0; fs::exists(files().launch_file());) {
    auto janitor = this->janitor();  // the next daemon's
    for (Deadline deadline = Deadline::after(std::chrono::seconds(10));
         lines().size() == stored && fs::exists(files().launch_file()); ::usleep(1000)) {
      ASSERT_FALSE(deadline.passed());
      janitor->run_slice();
    }
    EXPECT_LT(lines().size(), stored + 60);  // a slice takes 256 KiB, not all
    stored = lines().size();
  }
  EXPECT_EQ(lines(), said);
}

TEST_F(JanitorTest, ASweepCutShortAtAnyPointIsEndedByTheNext) {
  for (int cut = 0; cut < 4; ++cut) {
    leave(kNode, {});
    if (cut > 0) fs::remove(files().spool());
    if (cut > 1) fs::remove(files().secret());
    if (cut > 2) fs::remove_all(sockets());
    auto janitor = this->janitor();
    work(*janitor);
    EXPECT_FALSE(fs::exists(files().spool()));
    EXPECT_FALSE(fs::exists(files().secret()));
    EXPECT_FALSE(fs::exists(sockets()));
  }
}

TEST_F(JanitorTest, ANodeThatMayStillRunIsLeftAlone) {
  const model::NodeId live{{{"demo", 2}, 1}, 0};
  add_node(live, model::AttemptState::draining);
  const model::NodeId unknown{{{"demo", 3}, 1}, 0};
  leave(live, {"line"});
  leave(unknown, {"line"});
  leave(kNode, {});
  auto janitor = this->janitor();
  work(*janitor);
  for (int i = 0; i < 10; ++i) janitor->run_slice();
  for (const model::NodeId& node : {live, unknown}) {
    EXPECT_TRUE(fs::exists(files(node).launch_file()));
    EXPECT_TRUE(fs::exists(files(node).spool()));
    EXPECT_TRUE(fs::exists(sockets(node)));
    EXPECT_THAT(lines(node.attempt.run), IsEmpty());
    fs::remove_all(sockets(node));
  }
}

TEST_F(JanitorTest, ANodeWhoseAgentHoldsItsLockIsLeftAlone) {
  leave(kNode, {"line"});
  auto lock = try_lock(files().lock()).value();
  ASSERT_TRUE(lock);
  auto janitor = this->janitor();
  for (int i = 0; i < 10; ++i) janitor->run_slice();
  EXPECT_TRUE(fs::exists(files().launch_file()));
  lock.reset();
  clock_.pass(std::chrono::hours(2));
  work(*janitor);
  EXPECT_THAT(lines(), ElementsAre("line"));
}

TEST_F(JanitorTest, ARunThatEndsIsSeenToAtOnce) {
  auto janitor = this->janitor();
  for (int i = 0; i < 10; ++i) janitor->run_slice();  // the scan has ended, the next is in an hour
  const model::NodeId later{{{"demo", 2}, 1}, 0};
  add_node(later, model::AttemptState::ended);
  leave(later, {"line"});
  janitor->run_slice();
  EXPECT_TRUE(fs::exists(files(later).launch_file()));
  janitor->queue_ended_nodes({"demo", 2});
  work(*janitor, later);
  EXPECT_THAT(lines({"demo", 2}), ElementsAre("line"));
}

TEST_F(JanitorTest, AnAttemptThatEndedBeforeALiveOneIsSeenToAtOnce) {
  auto janitor = this->janitor();
  for (int i = 0; i < 10; ++i) janitor->run_slice();
  leave(kNode, {"line"});
  add_node({{kRun, 2}, 0}, model::AttemptState::running);
  janitor->queue_ended_nodes(kRun);
  work(*janitor);
  EXPECT_THAT(lines(), ElementsAre("line"));
}

TEST_F(JanitorTest, WhatFailsIsTriedAgainLater) {
  leave(kNode, {"line"});
  ASSERT_TRUE(
      database_->execute("create trigger full before insert on spools "
                         "begin select raise(abort, 'no space'); end"));
  auto janitor = this->janitor();
  for (int i = 0; i < 200; ++i, ::usleep(1000)) janitor->run_slice();
  EXPECT_TRUE(fs::exists(files().spool()));
  EXPECT_THAT(lines(), IsEmpty());
  ASSERT_TRUE(database_->execute("drop trigger full"));
  clock_.pass(std::chrono::minutes(2));
  work(*janitor);
  EXPECT_THAT(lines(), ElementsAre("line"));
}

TEST_F(JanitorTest, OldLinesAndFilesGoAndCheckpointsStay) {
  leave(kNode, {"line"});
  const fs::path checkpoint =
      host::run_folder(home_, "", kRun) / "checkpoints" / "step-10" / "data";
  ASSERT_TRUE(make_folders(checkpoint.parent_path()));
  ASSERT_TRUE(write_file(checkpoint, "weights"));
  auto janitor = this->janitor();
  work(*janitor);
  clock_.pass(29 * kDay);
  for (int i = 0; i < 10; ++i) janitor->run_slice();
  EXPECT_THAT(lines(), SizeIs(1));
  EXPECT_TRUE(fs::exists(files().rank_log(17)));
  clock_.pass(2 * kDay);
  for (int i = 0; i < 10; ++i) janitor->run_slice();
  EXPECT_THAT(lines(), ElementsAre(AllOf(HasSubstr("1 lines"), HasSubstr("removed"))));
  EXPECT_FALSE(fs::exists(files().folder.parent_path()));
  EXPECT_TRUE(fs::exists(checkpoint));
}

TEST_F(JanitorTest, AClockThatIsSetForwardByAMonthAndRightAgainRemovesNothing) {
  leave(kNode, {"line"});
  auto janitor = this->janitor();
  work(*janitor);
  clock_.pass(kClockTrusted);
  clock_.set(31 * kDay);
  rounds(*janitor, 5);
  janitor = this->janitor();  // the next daemon's
  rounds(*janitor, 5);
  clock_.set(-31 * kDay);
  rounds(*janitor, 24);
  EXPECT_THAT(lines(), ElementsAre("line"));
  EXPECT_TRUE(fs::exists(files().rank_log(17)));
}

TEST_F(JanitorTest, ARunThatWentOnAgainIsNotOld) {
  leave(kNode, {"line"});
  auto janitor = this->janitor();
  work(*janitor);
  clock_.pass(31 * kDay);
  model::Run run = state_.runs.at(kRun);
  run.state = model::RunState::queued;  // resumed
  run.ended.reset();
  store(run);
  rounds(*janitor, 24);
  EXPECT_THAT(lines(), ElementsAre("line"));
}

TEST_F(JanitorTest, PointsGoLongAfterTheLines) {
  leave(kNode, {"line"});
  log_point(100);
  auto janitor = this->janitor();
  work(*janitor);
  clock_.pass(kClockTrusted);
  clock_.pass(31 * kDay);
  rounds(*janitor, 3);
  EXPECT_TRUE(has_points());
  clock_.pass(kKeepMetrics);
  rounds(*janitor, 2);
  EXPECT_FALSE(has_points());
  EXPECT_EQ(insight_.series(kRun).value().removed, 1);
}

TEST_F(JanitorTest, WhatIsFinishedForAnEndedRunIsNotDoneAgain) {
  auto janitor = this->janitor();
  clock_.pass(kClockTrusted);
  clock_.pass(31 * kDay);
  rounds(*janitor, 2);
  state_ = {};  // the state has no rows of it any more
  leave(kNode, {});
  this->janitor()->run_slice();
  rounds(*janitor, 2);
  EXPECT_TRUE(fs::exists(files().launch_file())) << "nothing looks for files of a finished run";
}

TEST_F(JanitorTest, AnEndedRunThatTheStateDoesNotHaveIsCleanedUp) {
  leave(kNode, {"line"});
  state_ = {};
  auto janitor = this->janitor();
  work(*janitor);
  EXPECT_THAT(lines(), ElementsAre("line"));
}

TEST_F(JanitorTest, OfARemovedRunNothingIsLeft) {
  leave(kNode, {"line"});
  const fs::path folder = host::run_folder(home_, "", kRun);
  const fs::path outside = home_.path() / "data";
  ASSERT_TRUE(make_folders(folder / "checkpoints" / "step-10"));
  ASSERT_TRUE(make_folders(outside));
  ASSERT_TRUE(write_file(folder / "checkpoints" / "step-10" / "data", "weights"));
  ASSERT_TRUE(write_file(outside / "data", "kept"));
  fs::create_directory_symlink(outside, folder / "link");
  auto janitor = this->janitor();
  work(*janitor);
  log_point(100);
  ASSERT_TRUE(store_.remove_run(store_.find_run(kRun).value().value(), {}));
  state_ = {};
  for (Deadline deadline = Deadline::after(std::chrono::seconds(10));
       store::next_removed_run(*database_).value(); ::usleep(1000)) {
    ASSERT_FALSE(deadline.passed());
    janitor->run_slice();
  }
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_FALSE(fs::exists(sockets()));
  EXPECT_TRUE(fs::exists(outside / "data")) << "links are not followed";
  EXPECT_THAT(lines(), IsEmpty());
  EXPECT_FALSE(has_points());
  EXPECT_THAT(janitor->problems(), IsEmpty());
}

TEST_F(JanitorTest, AboveItsLimitTheStoreMakesRoomOrSaysThatItCannot) {
  std::string many;
  // Halved by compression.
  for (int line = 0; line < 2048; ++line) many += net::random_hex(512) + "\n";
  const std::vector<spool::TelemetryItem> items = {{.sequence = 1, .text = std::move(many)}};
  const Bytes before = database_->used().value();
  ASSERT_TRUE(insight_.ingest({"", kNode}, items));
  const auto limited = [&](Bytes most) {
    return std::make_unique<Janitor>(
        JanitorSetup{.state = state_,
                     .insight = insight_,
                     .database = *database_,
                     .clock = clock_,
                     .steady = clock_,
                     .home = home_,
                     .token_of = [this](const model::NodeName& node) { return token(node.id); },
                     .store_max = most});
  };
  auto janitor = limited(before + 512_KiB);
  rounds(*janitor, 1);
  EXPECT_LT(database_->used().value(), before + 512_KiB);
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("2049 lines before this are left out")));
  EXPECT_THAT(janitor->problems(), IsEmpty());
  janitor = limited(1_KiB);
  rounds(*janitor, 1);
  EXPECT_THAT(janitor->problems(), ElementsAre(HasSubstr("`lockstep rm` removes runs")));
}

TEST_F(JanitorTest, AStoreWithMuchUnusedSpaceGetsSmaller) {
  const fs::path file = home_ / "store" / "lockstep.db";
  const auto database = store::Database::open(file).value();
  const auto series = insight::open_folder_series(home_.path() / "series2").value();
  insight::Insight insight(*database, *series);
  std::vector<spool::TelemetryItem> items;
  for (int i = 1; i <= 400; ++i) items.push_back({.sequence = i, .text = net::random_hex(15'000)});
  ASSERT_TRUE(insight.ingest({"", kNode}, items));
  while (insight.expire_log(kRun).value()) continue;
  ASSERT_GT(database->unused().value(), 4_MiB);
  Janitor janitor({.state = state_,
                   .insight = insight,
                   .database = *database,
                   .clock = clock_,
                   .steady = clock_,
                   .home = home_,
                   .token_of = [this](const model::NodeName& node) { return token(node.id); },
                   .unused_most = 1_MiB});
  for (int i = 0; i < 5000 && database->unused().value() > 1_MiB; ++i) janitor.run_slice();
  EXPECT_LE(database->unused().value(), 1_MiB);
}

// The log lines during its lifetime.
class LogLines {
 public:
  LogLines() {
    set_log_sink([this](LogLevel, std::string_view line) { lines.emplace_back(line); });
  }
  ~LogLines() { set_log_sink({}); }
  std::vector<std::string> lines;
};

TEST_F(JanitorTest, WhatFailsIsSaidOnceForEachCauseAndTheRestGoesOn) {
  leave(kNode, {"a line"});
  for (const auto* table : {"drop table summaries", "drop table points", "drop table series"})
    ASSERT_TRUE(database_->execute(table));
  LogLines log;
  const auto janitor = this->janitor();
  work(*janitor);
  for (int i = 0; i < 50; ++i) janitor->run_slice();
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("moving the metrics of an earlier version: ")));
  EXPECT_THAT(janitor->problems(),
              ElementsAre(HasSubstr("moving the metrics of an earlier version: ")));
  clock_.pass(std::chrono::minutes(1));
  for (int i = 0; i < 50; ++i) janitor->run_slice();
  EXPECT_THAT(log.lines, SizeIs(2));
  EXPECT_FALSE(fs::exists(files().launch_file()));
}

TEST_F(JanitorTest, LinesThatCannotBeRemovedAreComplainedOf) {
  leave(kNode, {"a line"});
  const auto janitor = this->janitor();
  work(*janitor);
  for (int i = 0; i < 10; ++i) janitor->run_slice();  // to the end of its first scan
  ASSERT_TRUE(database_->execute("drop table log_chunks"));
  clock_.pass(31 * kDay);
  LogLines log;
  for (int i = 0; i < 50; ++i) janitor->run_slice();
  EXPECT_THAT(janitor->problems(), ElementsAre(HasSubstr("removing the lines of old runs: ")));
  EXPECT_THAT(log.lines, SizeIs(1));
}

}  // namespace
}  // namespace lockstep::server
