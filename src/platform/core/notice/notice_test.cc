// The changes that cause notices, the targets that they reach, their forms, and the pauses between
// tries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/notice/backoff.h"
#include "platform/core/notice/causes.h"
#include "platform/core/notice/forms.h"
#include "platform/core/notice/target.h"
#include "text/json.h"

namespace lockstep::notice {
namespace {

using model::NoticeKind;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr Time kNow = Time(hours(24 * 20'785) + seconds(5));  // 2026-11-28

model::Run a_run(model::RunState state) {
  model::Run run;
  run.id = {"demo", 3};
  run.spec.name = "train";
  run.origin.user = "ann";
  run.state = state;
  run.reason = "rank 3 exited with code 1";
  run.started = Time(seconds(1));
  run.time_used = minutes(62);
  if (model::is_final(state)) run.ended = kNow;
  return run;
}

model::State with(const model::Run& run) {
  model::State state;
  state.store.generation = "3f9c";
  state.runs.emplace(run.id, run);
  return state;
}

model::Notice a_failure() {
  return notices_of(with(a_run(model::RunState::running)), {{a_run(model::RunState::failed)}}, kNow)
      .front();
}

TEST(Causes, AnEndIsANoticeWithItsReasonAndDuration) {
  const model::Notice notice = a_failure();
  EXPECT_EQ(notice.kind, NoticeKind::run_failed);
  EXPECT_EQ(notice.project, "demo");
  EXPECT_EQ(notice.run, "demo/3");
  EXPECT_EQ(notice.user, "ann");
  EXPECT_EQ(notice.reason, "rank 3 exited with code 1");
  EXPECT_EQ(notice.duration, Duration(minutes(62)));
  EXPECT_EQ(notice.time, kNow);
}

TEST(Causes, ATimeOutIsAFailureAndAStopIsNone) {
  const model::State before = with(a_run(model::RunState::running));
  const auto kind_of = [&](model::RunState state) {
    return notices_of(before, {{a_run(state)}}, kNow).front().kind;
  };
  EXPECT_EQ(kind_of(model::RunState::timed_out), NoticeKind::run_failed);
  EXPECT_EQ(kind_of(model::RunState::cancelled), NoticeKind::run_ended);
  EXPECT_EQ(kind_of(model::RunState::succeeded), NoticeKind::run_ended);
}

TEST(Causes, ARowOfARunThatHadEndedIsNoNotice) {
  EXPECT_THAT(
      notices_of(with(a_run(model::RunState::failed)), {{a_run(model::RunState::failed)}}, kNow),
      IsEmpty());
}

TEST(Causes, SeveralRowsOfARunInOneChangeAreOneNotice) {
  const std::vector<model::Change> changes = {a_run(model::RunState::running),
                                              a_run(model::RunState::failed)};
  EXPECT_EQ(notices_of({}, changes, kNow).size(), 1u) << "also of a run that the state lacks";
  const std::vector<model::Change> resumed = {a_run(model::RunState::failed),
                                              a_run(model::RunState::queued)};
  EXPECT_THAT(notices_of(with(a_run(model::RunState::running)), resumed, kNow), IsEmpty());
}

TEST(Causes, ARunThatNeverStartedHasNoDuration) {
  model::Run run = a_run(model::RunState::cancelled);
  run.started.reset();
  EXPECT_EQ(notices_of({}, {{run}}, kNow).front().duration, std::nullopt);
}

TEST(Causes, AWarningOfABudgetThatRisesIsANotice) {
  budget::Budget low{.id = "demo",
                     .available = hours(2),
                     .spent = hours(8),
                     .grants = {{kNow, hours(10), hours(2)}},
                     .warned = {80, hours(10)}};
  model::State before;
  before.budgets.emplace("demo", budget::Budget{.id = "demo"});
  const auto notices = notices_of(before, {{low}}, kNow);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].kind, NoticeKind::budget_warning);
  EXPECT_EQ(line_of(notices[0]), "80 % of the budget of demo is used");
  before.budgets.insert_or_assign("demo", low);
  EXPECT_THAT(notices_of(before, {{low}}, kNow), IsEmpty()) << "it was given";
}

TEST(Causes, AnIdIsOfOneFactOfOneStore) {
  const std::string id = a_failure().id;
  EXPECT_EQ(id, a_failure().id);
  model::State other = with(a_run(model::RunState::running));
  other.store.generation = "77aa";
  EXPECT_NE(notices_of(other, {{a_run(model::RunState::failed)}}, kNow).front().id, id);
  model::Run later = a_run(model::RunState::failed);
  later.ended = kNow + seconds(1);
  EXPECT_NE(notices_of(with(a_run(model::RunState::running)), {{later}}, kNow).front().id, id);
}

TEST(Targets, EndedIncludesFailed) {
  const model::Notice failed = a_failure();
  model::Notice ended = failed;
  ended.kind = NoticeKind::run_ended;
  const Target on_ended{.scope = Scope::all, .user = "eve", .on = {Cause::ended}};
  const Target on_failed{.scope = Scope::all, .user = "eve", .on = {Cause::failed}};
  EXPECT_TRUE(matches(on_ended, failed));
  EXPECT_TRUE(matches(on_ended, ended));
  EXPECT_TRUE(matches(on_failed, failed));
  EXPECT_FALSE(matches(on_failed, ended));
}

TEST(Targets, EachCauseHasItsKind) {
  model::Notice notice = a_failure();
  const std::vector<Cause> all = {Cause::failed, Cause::budget, Cause::finding};
  for (const auto& [kind, cause] : {std::pair(NoticeKind::budget_warning, Cause::budget),
                                    std::pair(NoticeKind::finding, Cause::finding)}) {
    notice.kind = kind;
    for (const Cause other : all)
      EXPECT_EQ(matches({.scope = Scope::all, .user = "eve", .on = {other}}, notice),
                other == cause);
  }
}

TEST(Targets, AScopeBoundsTheRuns) {
  const model::Notice notice = a_failure();
  const auto reaches = [&](Scope scope, const std::string& user, const std::string& project) {
    return matches({.scope = scope, .user = user, .project = project, .on = {Cause::failed}},
                   notice);
  };
  EXPECT_TRUE(reaches(Scope::own, "ann", ""));
  EXPECT_TRUE(reaches(Scope::own, "ann", "demo"));
  EXPECT_FALSE(reaches(Scope::own, "ann", "other"));
  EXPECT_FALSE(reaches(Scope::own, "eve", ""));
  EXPECT_TRUE(reaches(Scope::project, "eve", "demo"));
  EXPECT_FALSE(reaches(Scope::project, "eve", "other"));
  EXPECT_TRUE(reaches(Scope::all, "eve", ""));
}

TEST(Targets, ABudgetIsNoOwnRun) {
  const model::Notice notice{.id = "1", .kind = NoticeKind::budget_warning, .project = "demo"};
  EXPECT_FALSE(matches({.user = "ann", .on = {Cause::budget}}, notice));
}

TEST(Forms, ALineSaysWhatEndedAndWhy) {
  model::Notice notice = a_failure();
  EXPECT_EQ(line_of(notice), "demo/3 (train) failed after 1h 2min: rank 3 exited with code 1");
  notice.state = "timed_out";
  EXPECT_THAT(line_of(notice), StartsWith("demo/3 (train) timed out after"));
  notice.state = "cancelled";
  notice.cost = minutes(480);
  EXPECT_THAT(line_of(notice), AllOf(StartsWith("demo/3 (train) was cancelled"),
                                     HasSubstr("; it cost 480 device-minutes")));
}

TEST(Forms, AFindingSaysAboutWhat) {
  const model::Run run = a_run(model::RunState::running);
  EXPECT_EQ(line_of(finding_of({}, "demo", &run, "its devices are idle", kNow)),
            "demo/3 (train): its devices are idle");
  EXPECT_EQ(line_of(finding_of({}, "demo", nullptr, "two hosts are away", kNow)),
            "demo: two hosts are away");
}

TEST(Forms, JsonHasUnitsAndTheLine) {
  model::Notice notice = a_failure();
  notice.cost = hours(8);
  const Json json = parse_json(json_form(notice)).value();
  EXPECT_EQ(json.at("kind"), "run_failed");
  EXPECT_EQ(json.at("duration_seconds"), 3720);
  EXPECT_EQ(json.at("cost_device_seconds"), 28'800);
  EXPECT_EQ(json.at("used_percent"), nullptr);
  EXPECT_EQ(json.at("text"), line_of(notice));
  EXPECT_EQ(json.at("id"), notice.id);
  EXPECT_THAT(json_form(notice), Not(HasSubstr("\n")));
}

TEST(Forms, SlackGetsNoMarkup) {
  model::Notice notice = a_failure();
  notice.reason = "<!channel> & \"quotes\"\nline";
  const Json json = parse_json(slack_form(notice)).value();
  EXPECT_EQ(json.size(), 1u);
  EXPECT_THAT(json.at("text").get<std::string>(),
              HasSubstr("&lt;!channel&gt; &amp; \"quotes\"\nline"));
}

TEST(Forms, AMailHasOneHeadWhateverTheNames) {
  model::Notice notice = a_failure();
  notice.name = "x\r\nBcc: eve@example.com\r\n\r\nü";
  const std::string mail = mail_form(notice, {.from = "ls@example.com", .to = "ann@example.com"});
  const std::string head = mail.substr(0, mail.find("\r\n\r\n"));
  EXPECT_THAT(head, AllOf(HasSubstr("\r\nTo: <ann@example.com>\r\n"),
                          HasSubstr("\r\nDate: Sat, 28 Nov 2026 00:00:05 +0000\r\n"),
                          HasSubstr("\r\nMessage-ID: <3f9c.demo.3.run_failed."),
                          Not(HasSubstr("\r\nBcc"))));
  EXPECT_TRUE(std::ranges::all_of(head, [](unsigned char c) { return c < 0x7f; }));
}

TEST(Forms, AMailHasTheReasonInItsText) {
  const std::string mail = mail_form(a_failure(), {.from = "a@b", .to = "c@d"});
  EXPECT_THAT(mail.substr(mail.find("\r\n\r\n")),
              AllOf(HasSubstr("rank 3 exited with code 1"), HasSubstr("lockstep show demo/3")));
}

TEST(Backoff, APauseDoublesUpToAnHour) {
  std::vector<Duration> pauses;
  for (int failures : {1, 2, 3, 9, 10, 11, 1'000'000'000}) pauses.push_back(pause_after(failures));
  EXPECT_THAT(pauses, ElementsAre(seconds(10), seconds(20), seconds(40), seconds(2560), hours(1),
                                  hours(1), hours(1)));
}

}  // namespace
}  // namespace lockstep::notice
