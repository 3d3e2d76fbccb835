#include "platform/agent/external/job_ranks.h"

#include <chrono>
#include <csignal>

#include <gtest/gtest.h>

namespace lockstep::agent {
namespace {

using model::RankState;

constexpr Time kBoot = Time(std::chrono::hours(1000));

class JobRanksTest : public ::testing::Test {
 protected:
  const model::Rank& only() const { return ranks.all().at(0); }

  JobRanks ranks{kBoot};
};

TEST_F(JobRanksTest, ARankEndsWithTheCodeThatItSends) {
  ranks.join(3, 1, 77);
  ranks.record_leaving(3, "");
  ranks.record_end(3, {.code = 7}, std::chrono::seconds(5));
  EXPECT_EQ(only().rank, 3);
  EXPECT_EQ(only().local_rank, 1);
  EXPECT_EQ(only().pid, 77);
  EXPECT_EQ(only().state, RankState::exited);
  EXPECT_EQ(only().code, 7);
  EXPECT_EQ(only().ended, kBoot + std::chrono::seconds(5));
  EXPECT_FALSE(ranks.any_running());
}

TEST_F(JobRanksTest, WithoutACodeARankThatHasLeftEndsByItsError) {
  ranks.join(0, 0, 1);
  ranks.join(1, 1, 2);
  ranks.record_leaving(0, "");
  ranks.record_leaving(1, "ValueError: bad");
  ranks.record_end(0, {}, {});
  ranks.record_end(1, {}, {});
  EXPECT_EQ(ranks.all()[0].code, 0);
  EXPECT_EQ(ranks.all()[1].code, 1);
  EXPECT_EQ(ranks.message(), "rank 1: ValueError: bad");
}

TEST_F(JobRanksTest, ARankThatEndsWithoutAWordWasKilled) {
  ranks.join(0, 0, 1);
  ranks.join(1, 1, 2);
  ranks.join(2, 2, 3);
  ranks.record_end(0, {}, {});
  ranks.record_end(1, {.wait_status = SIGKILL}, {});
  ranks.record_end(2, {.wait_status = 5 << 8}, {});
  EXPECT_EQ(ranks.all()[0].state, RankState::killed);
  EXPECT_EQ(ranks.all()[0].code, 0);
  EXPECT_EQ(ranks.all()[1].state, RankState::killed);
  EXPECT_EQ(ranks.all()[1].code, SIGKILL);
  EXPECT_EQ(ranks.all()[2].state, RankState::exited) << "by _exit(2)";
  EXPECT_EQ(ranks.all()[2].code, 5);
}

TEST_F(JobRanksTest, ARankLivesAsLongAsOneOfItsConnections) {
  ranks.join(0, 0, 1);
  ranks.join(0, 0, 1);
  ranks.record_end(0, {.code = 0}, {});
  EXPECT_TRUE(ranks.any_running());
  ranks.record_end(0, {.code = 0}, {});
  EXPECT_FALSE(ranks.any_running());
}

TEST_F(JobRanksTest, ARankThatHadEndedRunsAgain) {
  ranks.join(0, 0, 1);
  ranks.record_end(0, {}, {});
  ranks.join(0, 0, 9);
  EXPECT_EQ(only().state, RankState::running);
  EXPECT_EQ(only().restarts, 1);
  EXPECT_EQ(only().pid, 9);
}

TEST_F(JobRanksTest, ALocalRankIsGivenOnce) {
  ranks.join(4, 0, 1);
  ranks.join(5, 0, 2);
  ranks.join(6, std::nullopt, 3);
  EXPECT_EQ(ranks.all()[1].local_rank, 1);
  EXPECT_EQ(ranks.all()[2].local_rank, 2);
}

TEST_F(JobRanksTest, AStepClearsTheFaultBeforeIt) {
  ranks.join(0, 0, 1);
  ranks.record_fault(0, report::Fault::timed_out, 3, "waited for rank 3");
  EXPECT_EQ(only().fault_rank, 3);
  ranks.record_step(0, 12);
  EXPECT_EQ(only().fault, report::Fault::none);
  EXPECT_EQ(only().step, 12);
}

}  // namespace
}  // namespace lockstep::agent
