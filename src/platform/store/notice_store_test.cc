// The outbox of notices: written with the end of a run, or not at all.
#include "platform/store/notice_store.h"

#include <map>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder_for_test.h"
#include "platform/store/sql_store.h"

namespace lockstep::store {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Time kMade = Time(hours(1000));

model::Notice failure_of(const std::string& run, const std::string& user = "ann") {
  return {.id = "3f9c." + run,
          .kind = model::NoticeKind::run_failed,
          .time = kMade,
          .project = run.substr(0, run.find('/')),
          .run = run,
          .user = user,
          .state = "failed",
          .reason = "oh"};
}

model::Run failed_run(std::int64_t number) {
  model::Run run;
  run.id = {"demo", number};
  run.spec.command = {"true"};
  run.state = model::RunState::failed;
  run.ended = kMade;
  return run;
}

class NoticeStoreTest : public ::testing::Test {
 protected:
  NoticeStoreTest() { reopen(); }

  void reopen() {
    store_.reset();
    database_.reset();
    database_ = Database::open(folder_ / "store.db").value();
    store_.emplace(*database_);
  }
  std::int64_t add_target(notice::Target target) {
    return store_
        ->add_target({.target = std::move(target), .sealed = "v1:x", .shown = "https://a"}, {})
        .value();
  }
  std::int64_t add_webhook(const std::string& project = "") {
    return add_target({.scope = project.empty() ? notice::Scope::all : notice::Scope::project,
                       .user = "ann",
                       .project = project,
                       .on = {notice::Cause::failed}});
  }
  Result<void> commit(const std::vector<model::Change>& changes) {
    return SqlStore(*database_).commit(changes);
  }
  std::vector<DueNotice> due(Time now = kMade, std::vector<std::int64_t> busy = {}) {
    return store_->due(now, 10, busy).value();
  }
  std::vector<std::string> due_runs(Time now = kMade, std::vector<std::int64_t> busy = {}) {
    std::vector<std::string> runs;
    for (const DueNotice& one : due(now, std::move(busy))) runs.push_back(one.notice.run);
    return runs;
  }
  NoticeTarget only_target() { return store_->targets().value().at(0); }

  TemporaryFolder folder_;
  std::unique_ptr<Database> database_;
  std::optional<NoticeStore> store_;
};

TEST_F(NoticeStoreTest, ANoticeIsThereAfterARestartWithTheEndOfItsRun) {
  add_webhook();
  ASSERT_TRUE(commit({failed_run(1), failure_of("demo/1")}));
  reopen();
  const auto notices = due();
  ASSERT_THAT(notices, SizeIs(1));
  EXPECT_EQ(notices[0].notice, failure_of("demo/1"));
  EXPECT_EQ(notices[0].made, kMade);
  EXPECT_EQ(notices[0].target.sealed, "v1:x");
  EXPECT_EQ(only_target().waiting, 1);
}

TEST_F(NoticeStoreTest, WithoutTheEndThereIsNoNotice) {
  add_webhook();
  ASSERT_TRUE(database_->execute(
      "create trigger refuse before insert on audit begin select raise(abort, 'no'); end"));
  ASSERT_FALSE(commit({failed_run(1), failure_of("demo/1"), model::AuditRecord{}}));
  EXPECT_THAT(due(), IsEmpty());
  EXPECT_EQ(only_target().waiting, 0);
  EXPECT_FALSE(SqlStore(*database_).find_run({"demo", 1}).value());
}

TEST_F(NoticeStoreTest, OnlyTargetsThatMatchGetIt) {
  const std::int64_t all = add_webhook(), of_demo = add_webhook("demo");
  add_webhook("other");
  const std::int64_t own = add_target({.user = "eve", .on = {notice::Cause::ended}});
  ASSERT_TRUE(commit({failure_of("demo/1"), failure_of("demo/2", "eve")}));
  std::map<std::int64_t, std::int64_t> waiting;
  for (const NoticeTarget& row : store_->targets().value())
    if (row.waiting > 0) waiting[row.target.id] = row.waiting;
  EXPECT_EQ(waiting, (std::map<std::int64_t, std::int64_t>{{all, 2}, {of_demo, 2}, {own, 1}}));
}

TEST_F(NoticeStoreTest, TheCostIsTheSumOfTheRunsUsageIfItsProjectHasABudget) {
  add_webhook();
  ASSERT_TRUE(commit({budget::Budget{.id = "demo"}}));
  budget::UsagePart part;
  part.run = "demo/1";
  part.charged = hours(2);
  ASSERT_TRUE(commit({part}));
  part.epoch = 2;
  ASSERT_TRUE(commit({part, failure_of("demo/1")}));
  EXPECT_EQ(due()[0].notice.cost, budget::DeviceTime(hours(4)));
  ASSERT_TRUE(store_->record_delivery(due()[0], kMade));
  ASSERT_TRUE(commit({failure_of("demo/2")}));
  EXPECT_EQ(due()[0].notice.cost, std::nullopt) << "without a record";
  ASSERT_TRUE(store_->record_delivery(due()[0], kMade));
  part.run = "other/1";
  ASSERT_TRUE(commit({part, failure_of("other/1")}));
  EXPECT_EQ(due()[0].notice.cost, std::nullopt) << "without a budget";
}

TEST_F(NoticeStoreTest, ATargetGetsTheOldestFirstAndOneAtATime) {
  const std::int64_t target = add_webhook();
  ASSERT_TRUE(commit({failure_of("demo/1"), failure_of("demo/2")}));
  EXPECT_THAT(due_runs(), ElementsAre("demo/1"));
  EXPECT_THAT(due_runs(kMade, {target}), IsEmpty());
  ASSERT_TRUE(store_->record_delivery(due()[0], kMade));
  EXPECT_THAT(due_runs(), ElementsAre("demo/2"));
  EXPECT_EQ(only_target().delivered, kMade);
}

TEST_F(NoticeStoreTest, AfterAFailureTheTargetWaitsAndKeepsTheReason) {
  add_webhook();
  ASSERT_TRUE(commit({failure_of("demo/1")}));
  ASSERT_TRUE(store_->record_failure(due()[0],
                                     {.problem = "answered 500", .next_try = kMade + seconds(10)}));
  EXPECT_THAT(due(kMade + seconds(9)), IsEmpty());
  reopen();
  EXPECT_THAT(due_runs(kMade + seconds(10)), ElementsAre("demo/1"));
  EXPECT_EQ(only_target().problem, "answered 500");
  EXPECT_EQ(only_target().failures, 1);
  ASSERT_TRUE(store_->record_delivery(due(kMade + seconds(10))[0], kMade));
  EXPECT_EQ(only_target().problem, "");
  EXPECT_EQ(only_target().failures, 0);
}

TEST_F(NoticeStoreTest, AClockThatWasSetBackKeepsNoTargetWaiting) {
  add_webhook();
  ASSERT_TRUE(commit({failure_of("demo/1")}));
  ASSERT_TRUE(store_->record_failure(due()[0], {.problem = "p", .next_try = kMade + hours(1)}));
  EXPECT_THAT(due(kMade), IsEmpty());
  EXPECT_THAT(due(kMade - hours(24)), SizeIs(1));
}

TEST_F(NoticeStoreTest, ADroppedNoticeIsCounted) {
  add_webhook();
  ASSERT_TRUE(commit({failure_of("demo/1"), failure_of("demo/2"), failure_of("demo/3")}));
  ASSERT_TRUE(store_->record_failure(due()[0], {.problem = "answered 400", .is_dropped = true}));
  ASSERT_TRUE(store_->withdraw(due()[0]));
  EXPECT_EQ(only_target().dropped, 2);
  EXPECT_THAT(due_runs(), ElementsAre("demo/3"));
}

TEST_F(NoticeStoreTest, ARemovedTargetLeavesNothing) {
  const std::int64_t target = add_webhook();
  ASSERT_TRUE(commit({failure_of("demo/1")}));
  const DueNotice in_delivery = due()[0];
  ASSERT_TRUE(store_->remove_target(target, {}));
  EXPECT_TRUE(store_->record_delivery(in_delivery, kMade));
  EXPECT_THAT(store_->targets().value(), IsEmpty());
  EXPECT_THAT(database_->rows<std::int64_t>("select id from notices").value(), IsEmpty());
  EXPECT_NE(add_webhook(), target) << "no number is given again";
}

TEST_F(NoticeStoreTest, ATargetKeepsTheNewestOfTooManyNotices) {
  add_webhook();
  std::vector<model::Change> many;
  for (int i = 1; i <= kWaitingOfTargetMax + 5; ++i)
    many.emplace_back(failure_of("demo/" + std::to_string(i)));
  ASSERT_TRUE(commit(many));
  EXPECT_EQ(only_target().waiting, kWaitingOfTargetMax);
  EXPECT_EQ(only_target().dropped, 5);
  EXPECT_THAT(due_runs(), ElementsAre("demo/6"));
}

TEST_F(NoticeStoreTest, AllTargetsTogetherKeepTheirBound) {
  for (int i = 0; i < 12; ++i) add_webhook();
  std::vector<model::Change> many;
  for (int i = 1; i <= 900; ++i) many.emplace_back(failure_of("demo/" + std::to_string(i)));
  ASSERT_TRUE(commit(many));
  std::int64_t waiting = 0, dropped = 0;
  for (const NoticeTarget& row : store_->targets().value()) {
    waiting += row.waiting;
    dropped += row.dropped;
  }
  EXPECT_EQ(waiting, kWaitingMax);
  EXPECT_EQ(dropped, 12 * 900 - kWaitingMax);
}

}  // namespace
}  // namespace lockstep::store
