#include "platform/server/people/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/identity/changes.h"

namespace lockstep::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// ann is a member of demo; there are runs in demo, secret and Older.
class ReaderTest : public testing::Test {
 protected:
  ReaderTest() { state_.numbers = {{"demo", 3}, {"secret", 4}, {"Older", 1}}; }
  static identity::Directory directory_of_ann() {
    identity::Directory directory;
    directory.daemon_user = "root";
    for (const auto& changes : {Result<identity::Changes>(identity::first_rows(directory, Time())),
                                identity::add_user(directory, "ann", Time()),
                                identity::add_project(directory, "demo", Time()),
                                identity::add_project(directory, "secret", Time())})
      identity::apply(directory, changes.value());
    identity::apply(directory,
                    identity::set_member(directory, "demo", "ann", identity::Role::member).value());
    return directory;
  }

  const identity::Directory directory_ = directory_of_ann();
  model::State state_;
  const identity::Bearer ann_{.user = "ann"}, root_{.user = "root"};
  const Reader reader_{directory_, ann_, state_};
  const Reader admin_{directory_, root_, state_};
};

TEST_F(ReaderTest, NamesNoRunOfAnotherProject) {
  EXPECT_EQ(reader_.without_names("waits for secret/4: needs 2 devices, behind demo/1."),
            "waits for a run of another project: needs 2 devices, behind demo/1.");
  EXPECT_EQ(reader_.without_names("secret/4.2/0, (Older/1) `lockstep stop secret/4.1`"),
            "a run of another project, (a run of another project) `lockstep stop a run of another "
            "project`");
  EXPECT_EQ(reader_.without_names("secret/4."), "a run of another project.");
  EXPECT_EQ(admin_.without_names("secret/4"), "secret/4");
}

TEST_F(ReaderTest, LeavesOtherTextAsItIs) {
  for (const std::string text :
       {"", "no names", "10.0.0.1/24 and /data/1", "1/2 of the disk", "unknown/4", "a/b/c", "..."})
    EXPECT_EQ(reader_.without_names(text), text);
}

TEST_F(ReaderTest, AQueueHasOtherRunsWithoutNames) {
  api::QueueView view;
  view.waiting.resize(2);
  view.waiting[0].run = "secret/4";
  view.waiting[0].name = "n";
  view.waiting[0].user = "bob";
  view.waiting[0].nodes = 2;
  view.waiting[0].reason = "user bob holds 2";
  view.waiting[0].blocker = "demo/1";
  view.waiting[1].run = "demo/2";
  view.waiting[1].reason = "waits for secret/4";
  view.waiting[1].blocker = "secret/4";
  view.allocations.resize(3);
  view.allocations[0].run = "secret/3";
  view.allocations[0].name = "n";
  view.allocations[0].hosts = {"a"};
  view.allocations[0].leaves = "moved to make room for secret/4";
  view.allocations[1].run = "orphan secret/2";
  view.allocations[2].run = "demo/1";
  reader_.limit(view);
  EXPECT_EQ(view.waiting[0].run, kOtherRun);
  EXPECT_EQ(view.waiting[0].name + view.waiting[0].user + view.waiting[0].reason, "");
  EXPECT_FALSE(view.waiting[0].blocker);
  EXPECT_EQ(view.waiting[0].nodes, 2);
  EXPECT_EQ(view.waiting[1].run, "demo/2");
  EXPECT_EQ(view.waiting[1].blocker, kOtherRun);
  EXPECT_EQ(view.waiting[1].reason, "waits for a run of another project");
  EXPECT_EQ(view.allocations[0].run, kOtherRun);
  EXPECT_EQ(view.allocations[0].name, "");
  EXPECT_THAT(view.allocations[0].hosts, ElementsAre("a"));
  EXPECT_EQ(view.allocations[0].leaves, "moved to make room for a run of another project");
  EXPECT_EQ(view.allocations[1].run, kOtherRun);
  EXPECT_EQ(view.allocations[2].run, "demo/1");
}

TEST_F(ReaderTest, HostsHaveTheRunsThatItMayRead) {
  api::HostList list;
  list.hosts.resize(1);
  list.hosts[0].runs = {"secret/3", "demo/1", "orphan secret/2"};
  list.hosts[0].free = 1;
  list.hosts[0].events = {{.by = "root from 10.0.0.5", .what = "drained"}};
  reader_.limit(list);
  EXPECT_THAT(list.hosts[0].runs, ElementsAre("demo/1"));
  EXPECT_EQ(list.hosts[0].free, 1);
  EXPECT_THAT(list.hosts[0].events, IsEmpty());
}

TEST_F(ReaderTest, LimitsAreItsOwn) {
  using enum model::LimitScope;
  api::LimitList list;
  for (const auto& [scope, name] : {std::pair(project, "demo"), std::pair(project, "secret"),
                                    std::pair(user, "ann"), std::pair(user, "bob")}) {
    list.limits.emplace_back().scope = scope;
    list.limits.back().name = name;
  }
  reader_.limit(list);
  ASSERT_EQ(list.limits.size(), 2U);
  EXPECT_EQ(list.limits[0].name, "demo");
  EXPECT_EQ(list.limits[1].name, "ann");
}

TEST_F(ReaderTest, AnAdminsTokenOfAProjectReadsOnlyThat) {
  EXPECT_EQ(admin_.projects(), std::nullopt);
  const identity::Bearer bounded{.user = "root", .token = "t", .project = "demo"};
  const Reader reader(directory_, bounded, state_);
  EXPECT_EQ(reader.projects(), std::vector<std::string>{"demo"});
  EXPECT_EQ(reader.without_names("secret/4"), kOtherRun);
}

}  // namespace
}  // namespace lockstep::server
