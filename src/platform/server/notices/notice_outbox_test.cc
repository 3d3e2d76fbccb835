// The way of a notice from the outbox to a webhook, on a loop with a store in memory.
#include "platform/server/notices/notice_outbox.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder_for_test.h"
#include "net/http/scripted_server_for_test.h"
#include "platform/identity/changes.h"
#include "platform/store/sql_store.h"

namespace lockstep::server {
namespace {

using net::json_answer;
using net::ScriptedServer;
using notice::Cause;
using notice::Scope;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// At a time that the test sets.
class OutboxClock : public Clock {
 public:
  Time now() const override { return time; }
  Time time = Time(std::chrono::hours(1000));
};

class NoticeOutboxTest : public ::testing::Test {
 protected:
  // `url` is that of a webhook of the daemon's user.
  void add_webhook(const std::string& url, const std::string& user = "boss") {
    const store::NoticeTarget row{
        .target = {.scope = Scope::project, .user = user, .project = "demo", .on = {Cause::failed}},
        .sealed = outbox_.seal(url),
        .shown = "http://127.0.0.1"};
    ASSERT_TRUE(store_.add_target(row, {}));
  }
  void add_failure(int number) {
    ASSERT_TRUE(store::SqlStore(*database_)
                    .commit({{model::Notice{.id = "3f9c." + std::to_string(number),
                                            .kind = model::NoticeKind::run_failed,
                                            .time = clock_.time,
                                            .project = "demo",
                                            .run = "demo/" + std::to_string(number),
                                            .user = "ann"}}}));
  }
  store::NoticeTarget target(std::size_t index = 0) { return store_.targets().value().at(index); }
  // Runs the loop until the condition holds, 20 s at most. Once for each test.
  void run_until(const std::function<bool()>& condition) {
    const Deadline end = Deadline::after(seconds(20));
    std::function<void()> look = [&] {
      if (condition() || end.passed()) return loop_.stop();
      outbox_.send_due();
      timer_ = loop_.after(milliseconds(5), look);
    };
    look();
    loop_.run();
    ASSERT_TRUE(condition());
  }

  const TemporaryFolder folder_;
  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  OutboxClock clock_;
  store::SqlIdentityStore identities_{*database_};
  std::unique_ptr<Accounts> accounts_ = Accounts::open(identities_, clock_, "boss").value();
  store::NoticeStore store_{*database_};
  host::Keys keys_ = host::Keys::open(folder_ / "keys").value();
  net::Loop loop_;
  NoticeOutbox outbox_{
      loop_,
      store_,
      {.allowed = {notifier::parse_network("127.0.0.0/8").value()}, .limit = seconds(10)},
      *accounts_,
      keys_,
      clock_};
  net::Timer timer_;
};

TEST_F(NoticeOutboxTest, WhatWaitsIsDeliveredInItsOrder) {
  ScriptedServer server({json_answer(200, "{}"), json_answer(200, "{}")});
  add_webhook(server.url());
  add_failure(1);
  add_failure(2);
  run_until([&] { return target().waiting == 0; });
  const auto requests = server.requests();
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_THAT(requests[0], HasSubstr("Lockstep-Notice: 3f9c.1\r\n"));
  EXPECT_THAT(requests[1], HasSubstr("Lockstep-Notice: 3f9c.2\r\n"));
}

TEST_F(NoticeOutboxTest, AFailedTryIsMadeAgainWhenItIsDue) {
  ScriptedServer server({json_answer(500, "{}"), json_answer(200, "{}")});
  add_webhook(server.url());
  add_failure(1);
  run_until([&] {
    const store::NoticeTarget row = target();
    if (row.failures == 1 && clock_.time < row.next_try) {  // once
      EXPECT_THAT(row.problem, StartsWith("answered 500"));
      EXPECT_EQ(row.next_try, clock_.time + seconds(10));
      clock_.time = row.next_try;
    }
    return row.waiting == 0;
  });
  EXPECT_THAT(server.requests(), SizeIs(2));
  EXPECT_EQ(target().problem, "");
}

TEST_F(NoticeOutboxTest, AnOldNoticeIsGivenUpAfterAFailure) {
  ScriptedServer server({json_answer(503, "{}")});
  add_webhook(server.url());
  add_failure(1);
  clock_.time += std::chrono::hours(24) + seconds(1);
  run_until([&] { return target().dropped == 1; });
  EXPECT_EQ(target().waiting, 0);
  EXPECT_THAT(target().problem, StartsWith("answered 503"));
}

TEST_F(NoticeOutboxTest, ARefusedNoticeHoldsUpNoOther) {
  ScriptedServer server({json_answer(400, "{}"), json_answer(200, "{}")});
  add_webhook(server.url());
  add_failure(1);
  add_failure(2);
  run_until([&] { return target().waiting == 0; });
  EXPECT_EQ(target().dropped, 1);
  EXPECT_EQ(target().problem, "");
}

TEST_F(NoticeOutboxTest, ADeadTargetHoldsUpNoOther) {
  net::Listener silent = *net::Listener::tcp("127.0.0.1", 0);
  ScriptedServer server({json_answer(200, "{}")});
  add_webhook(format("http://127.0.0.1:{}", silent.port()));
  add_webhook(server.url());
  add_failure(1);
  run_until([&] { return target(1).waiting == 0; });
  EXPECT_EQ(target(0).waiting, 1);
  outbox_.finish();  // else the destructor waits for the time limit
}

TEST_F(NoticeOutboxTest, AUserWithoutTheRightGetsNothing) {
  ScriptedServer server({json_answer(200, "{}")});
  add_webhook(server.url(), "eve");
  add_failure(1);
  run_until([&] { return target().waiting == 0; });
  EXPECT_EQ(target().dropped, 1);
  EXPECT_THAT(server.requests(), IsEmpty());
}

TEST_F(NoticeOutboxTest, ATryThatTheEndOfTheDaemonCutsShortIsNoFailure) {
  net::Listener silent = *net::Listener::tcp("127.0.0.1", 0);
  add_webhook(format("http://127.0.0.1:{}", silent.port()));
  add_failure(1);
  int looks = 0;
  run_until([&] {
    if (++looks == 10) outbox_.finish();
    return looks > 400;
  });
  EXPECT_EQ(target().failures, 0);
  EXPECT_EQ(target().waiting, 1);
}

// As after a full disk.
TEST_F(NoticeOutboxTest, ADeliveryThatCannotBeRecordedIsNotMadeTwice) {
  ScriptedServer server({json_answer(200, "{}"), json_answer(200, "{}")});
  add_webhook(server.url());
  add_failure(1);
  ASSERT_TRUE(database_->execute(
      "create trigger full before delete on notices begin select raise(abort, 'full'); end"));
  int looks = 0;
  run_until([&] {
    if (server.requests().size() == 1 && ++looks == 20) {
      EXPECT_TRUE(database_->execute("drop trigger full"));
    }
    return target().waiting == 0;
  });
  EXPECT_GE(looks, 20);
  EXPECT_THAT(server.requests(), SizeIs(1));
}

TEST_F(NoticeOutboxTest, ATargetOfAnotherDaemonsKeyIsNotReached) {
  add_webhook("http://127.0.0.1:1/");
  ASSERT_TRUE(database_->execute("update notice_targets set sealed = 'v1:AAAA'"));
  add_failure(1);
  run_until([&] { return target().failures == 1; });
  EXPECT_EQ(target().waiting, 1);
}

TEST(MayGet, AProjectIsForItsReadersAndACommandForAdmins) {
  identity::Directory directory;
  directory.daemon_user = "boss";
  for (const auto& changes :
       {Result<identity::Changes>(identity::first_rows(directory, Time())),
        identity::add_user(directory, "ann", Time()), identity::add_user(directory, "eve", Time()),
        identity::add_project(directory, "demo", Time())})
    identity::apply(directory, changes.value());
  identity::apply(directory,
                  identity::set_member(directory, "demo", "ann", identity::Role::viewer).value());
  const model::Notice of_demo{.id = "1", .project = "demo", .user = "ann"};
  EXPECT_TRUE(may_get(directory, {.user = "ann"}, of_demo));
  EXPECT_FALSE(may_get(directory, {.user = "eve"}, of_demo));
  EXPECT_TRUE(may_get(directory, {.scope = Scope::all, .user = "boss"}, of_demo));
  EXPECT_FALSE(may_get(directory, {.scope = Scope::all, .user = "ann"}, of_demo));
  EXPECT_FALSE(may_get(directory, {.kind = notice::TargetKind::command, .user = "ann"}, of_demo));
}

}  // namespace
}  // namespace lockstep::server
