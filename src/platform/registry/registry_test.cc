#include "platform/registry/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/store/audit_table.h"

namespace lockstep::registry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const ModelName kGpt{"demo", "gpt"};
const model::RunId kRun{"demo", 42};

model::AuditRecord record(std::string action = "model.register") {
  return {
      .time = Time(Duration(1'000'000)), .user = "ann", .action = std::move(action), .target = {}};
}

Version version(std::int64_t number = 0) {
  return {.model_name = kGpt,
          .number = number,
          .run = kRun,
          .step = 1000,
          .path = "/checkpoints/step-1000",
          .git_commit = "abc",
          .git_dirty = true,
          .data_set = "wiki",
          .user = "ann"};
}

class RegistryTest : public ::testing::Test {
 protected:
  Result<Version> add(Version one) {
    return registry_.add(std::move(one), Registry::IfMissing::create, record());
  }
  std::vector<std::string> actions() {
    std::vector<std::string> all;
    for (const auto& one : store::audit_records(*database_, {}).value())
      all.push_back(one.action + " " + one.target);
    return all;
  }
  std::vector<std::string> versions() {
    std::vector<std::string> all;
    for (const Version& one : registry_.versions(kGpt).value()) all.push_back(text(one));
    return all;
  }

  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  Registry registry_{*database_};
};

TEST_F(RegistryTest, AVersionKeepsWhereItCameFrom) {
  EXPECT_EQ(add(version()).value().number, 1);
  const Version found = registry_.find(kGpt, 1).value();
  EXPECT_EQ(found.run, kRun);
  EXPECT_EQ(found.step, 1000);
  EXPECT_EQ(found.path, "/checkpoints/step-1000");
  EXPECT_EQ(found.git_commit, "abc");
  EXPECT_TRUE(found.git_dirty);
  EXPECT_EQ(found.data_set, "wiki");
  EXPECT_EQ(registry_.versions_of(kRun).value().size(), 1u);
  EXPECT_THAT(registry_.versions_of({"demo", 43}).value(), IsEmpty());
  EXPECT_THAT(actions(), ElementsAre("model.register demo/gpt:1"));
}

TEST_F(RegistryTest, NumbersOfRemovedVersionsDoNotComeAgain) {
  EXPECT_EQ(add(version(3)).value().number, 3);
  EXPECT_EQ(add(version()).value().number, 4);
  ASSERT_TRUE(registry_.remove(registry_.find(kGpt, 4).value(), record("model.remove")));
  const auto again = add(version(4));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::already_exists);
  EXPECT_THAT(again.error().message, HasSubstr("the next one is 5"));
  EXPECT_EQ(add(version()).value().number, 5);
  EXPECT_THAT(versions(), ElementsAre("gpt:5", "gpt:3"));
}

TEST_F(RegistryTest, AnAliasMovesAndGoesWithItsVersion) {
  ASSERT_TRUE(add(version()));
  ASSERT_TRUE(add(version()));
  ASSERT_TRUE(registry_.set_alias(kGpt, "production", 1, record()));
  ASSERT_TRUE(registry_.set_alias(kGpt, "production", 2, record()));
  EXPECT_EQ(registry_.find(kGpt, "production").value().number, 2);
  EXPECT_THAT(registry_.find(kGpt, 2).value().aliases, ElementsAre("production"));
  EXPECT_THAT(registry_.find(kGpt, 1).value().aliases, IsEmpty());
  ASSERT_TRUE(registry_.remove(registry_.find(kGpt, 2).value(), record()));
  EXPECT_EQ(registry_.find(kGpt, "production").error().code, Code::not_found);
  EXPECT_EQ(registry_.set_alias(kGpt, "production", 2, record()).error().code, Code::not_found);
}

TEST_F(RegistryTest, AnAliasIsNoVersion) {
  for (const auto* good : {"production", "a", "champion_2", "v2b", "2nd"})
    EXPECT_TRUE(check_alias(good)) << good;
  for (const auto* wrong : {"", "latest", "3", "v3", "V12", "a b", "a/b", "v"})
    EXPECT_FALSE(check_alias(wrong)) << wrong;
}

TEST_F(RegistryTest, ARenamedModelKeepsVersionsAndAliases) {
  ASSERT_TRUE(add(version()));
  ASSERT_TRUE(registry_.set_alias(kGpt, "best", 1, record()));
  ASSERT_TRUE(registry_.rename(kGpt, "llm", record()));
  EXPECT_EQ(registry_.find(kGpt).error().code, Code::not_found);
  EXPECT_EQ(registry_.find({"demo", "llm"}, "best").value().run, kRun);
  ASSERT_TRUE(add(version()));
  EXPECT_EQ(registry_.rename({"demo", "llm"}, "gpt", record()).error().code, Code::already_exists);
}

TEST_F(RegistryTest, ARemovedModelLeavesNothing) {
  ASSERT_TRUE(add(version()));
  ASSERT_TRUE(registry_.set_alias(kGpt, "best", 1, record()));
  ASSERT_TRUE(registry_.remove(kGpt, record("model.remove")));
  EXPECT_THAT(registry_.models({}).value(), IsEmpty());
  EXPECT_THAT(versions(), IsEmpty());
  EXPECT_EQ(add(version()).value().number, 1);
  EXPECT_THAT(registry_.find(kGpt).value().aliases, IsEmpty());
}

TEST_F(RegistryTest, ModelsAreThoseOfTheProjects) {
  ASSERT_TRUE(add(version()));
  Version other = version();
  other.model_name = {"other", "bert"};
  ASSERT_TRUE(add(other));
  ASSERT_TRUE(registry_.set_alias(kGpt, "best", 1, record()));
  EXPECT_EQ(registry_.models({}).value().size(), 2u);
  const auto of_demo = registry_.models(std::vector<std::string>{"demo"}).value();
  ASSERT_EQ(of_demo.size(), 1u);
  EXPECT_EQ(of_demo[0].aliases.at("best"), 1);
}

TEST_F(RegistryTest, WhatIsRefusedChangesNothing) {
  Version wrong = version();
  wrong.model_name.name = "a/b";
  EXPECT_FALSE(add(wrong));
  wrong = version();
  wrong.description = std::string(kTextMax + 1, 'a');
  EXPECT_THAT(add(wrong).error().message, HasSubstr("description"));
  EXPECT_EQ(registry_.add(version(), Registry::IfMissing::refuse, record()).error().code,
            Code::not_found);
  EXPECT_THAT(registry_.models({}).value(), IsEmpty());
  EXPECT_THAT(actions(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::registry
