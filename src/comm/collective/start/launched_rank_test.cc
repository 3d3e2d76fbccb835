#include "comm/collective/start/launched_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

LaunchedRank launch(const Environment& environment, const std::string& parent = "77-1") {
  return launched_rank_of(environment, parent).value();
}
std::string refusal(const Environment& environment) {
  const auto result = launched_rank_of(environment, "77-1");
  if (result) return "taken";
  EXPECT_EQ(result.error().code, Code::invalid);
  return result.error().message;
}

const Environment kOpenMpi{{"OMPI_COMM_WORLD_RANK", "3"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_NAMESPACE", "12345.1"}};
const Environment kMpich{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}};
const Environment kSrun{{"SLURM_PROCID", "5"},
                        {"SLURM_NTASKS", "8"},
                        {"SLURM_JOB_ID", "99"},
                        {"SLURM_STEP_ID", "0"},
                        {"SLURM_STEP_NUM_NODES", "4"}};
const Environment kTorchrun{{"RANK", "1"},
                            {"WORLD_SIZE", "2"},
                            {"LOCAL_WORLD_SIZE", "1"},
                            {"MASTER_ADDR", "node-0"},
                            {"MASTER_PORT", "29500"}};

TEST(LaunchedRank, EachLaunchersRankAndSizeAreFound) {
  EXPECT_EQ(launch(kOpenMpi).rank, 3);
  EXPECT_EQ(launch(kOpenMpi).size, 4);
  EXPECT_EQ(launch(kMpich).rank, 1);
  EXPECT_EQ(launch(kSrun).rank, 5);
  EXPECT_EQ(launch(kTorchrun).rank, 1);
  EXPECT_FALSE(launch(kTorchrun).one_host);
  EXPECT_TRUE(launch(kMpich).one_host);
}

TEST(LaunchedRank, MpirunWithinASlurmJobIsMpirun) {
  auto both = kSrun;
  both.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(launch(both).rank, 3);
}

TEST(LaunchedRank, ABatchScriptOfSlurmIsNoRank) {
  auto batch = kSrun;
  batch.erase("SLURM_STEP_ID");
  EXPECT_NE(refusal(batch).find("no launcher has said which rank this is"), std::string::npos);
}

TEST(LaunchedRank, RanksOfOneStartShareAJobThatOthersDoNot) {
  auto other_rank = kOpenMpi;
  other_rank["OMPI_COMM_WORLD_RANK"] = "0";
  EXPECT_EQ(launch(kOpenMpi).job, launch(other_rank).job);
  auto other_job = kOpenMpi;
  other_job["PMIX_NAMESPACE"] = "12345.2";
  EXPECT_NE(launch(kOpenMpi).job, launch(other_job).job);
  EXPECT_NE(launch(kMpich, "77-1").job, launch(kMpich, "78-9").job);
}

TEST(LaunchedRank, WhatCannotBeIsRefusedByName) {
  auto beyond = kMpich;
  beyond["PMI_RANK"] = "2";
  EXPECT_THAT(refusal(beyond), AllOf(HasSubstr("PMI_RANK 2"), HasSubstr("PMI_SIZE 2")));
  auto odd = kMpich;
  odd["PMI_SIZE"] = "two";
  EXPECT_THAT(refusal(odd), AllOf(HasSubstr("PMI_SIZE"), HasSubstr("number"), HasSubstr("'two'")));
  auto several_hosts = kMpich;
  several_hosts["MPI_LOCALNRANKS"] = "1";
  EXPECT_NE(refusal(several_hosts).find("mpiexec of MPICH does not name its job"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::comm
