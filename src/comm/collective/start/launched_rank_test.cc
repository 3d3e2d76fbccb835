#include "comm/collective/start/launched_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/format.h"

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

TEST(LaunchedRank, RanksOfSrunWithPmiAreSruns) {
  auto pmi = kSrun;
  pmi.insert({{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"PMI_FD", "7"}, {"SLURM_LOCALID", "1"}});
  EXPECT_EQ(launch(pmi).launcher, "srun");
  EXPECT_EQ(launch(pmi).pmi_fd, "7");
  EXPECT_EQ(launch(pmi).local_rank, 1);
}

TEST(LaunchedRank, MpiexecWithinASlurmJobIsMpiexec) {
  auto both = kSrun;
  both.insert(kMpich.begin(), kMpich.end());
  both["PMI_FD"] = "9";
  EXPECT_EQ(launch(both).rank, 1);
  EXPECT_EQ(launch(both).pmi_fd, "9");
}

TEST(LaunchedRank, RanksOfOpenMpiDoNotUseTheKeyValueSpaceOfAnOuterLauncher) {
  auto inner = kOpenMpi;
  inner["PMI_FD"] = "7";
  EXPECT_EQ(launch(inner).pmi_fd, std::nullopt);
}

Environment met_at_node_0(Environment environment) {
  environment.insert(kTorchrun.begin(), kTorchrun.end());
  environment[kMeetingPlace] = "node-0:29500";
  return environment;
}

TEST(LaunchedRank, RanksThatHaveMetHaveTheLauncherOfBefore) {
  for (const auto& before : {kOpenMpi, kMpich, kSrun})
    EXPECT_EQ(without_meeting(met_at_node_0(before)).count("RANK"), 0u);
  EXPECT_EQ(launch(without_meeting(met_at_node_0(kSrun))).job, launch(kSrun).job);
}

TEST(LaunchedRank, TorchrunWithinARankThatHasMetIsTorchrun) {
  auto inner = met_at_node_0(kSrun);
  inner["MASTER_PORT"] = "29501";
  EXPECT_EQ(launch(without_meeting(inner)).launcher, "torchrun");
}

TEST(LaunchedRank, ABatchScriptOfSlurmIsNoRank) {
  auto batch = kSrun;
  batch.erase("SLURM_STEP_ID");
  EXPECT_NE(refusal(batch).find("no launcher has said which rank this is"), std::string::npos);
  EXPECT_EQ(launched_rank_of(batch, "").error().code, Code::not_found);
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

TEST(LaunchedRank, ANameOfTheUserNamesTheJob) {
  auto several_hosts = kMpich;
  several_hosts["MPI_LOCALNRANKS"] = "1";
  const auto named = [&](const char* parent, const char* job) {
    return launched_rank_of(several_hosts, parent, job).value().job;
  };
  EXPECT_EQ(named("77-1", "bert"), named("78-9", "bert"));
  EXPECT_NE(named("77-1", "bert"), named("77-1", "gpt"));
}

TEST(LaunchedRank, AProcessIsNamedByItsNumberAndItsStart) {
  EXPECT_EQ(process_identity(::getpid()).find(format("{}-", ::getpid())), 0u);
  EXPECT_EQ(process_identity(::getpid()), process_identity(::getpid()));
  EXPECT_EQ(parent_of(::getpid()), ::getppid());
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
  several_hosts["PMI_FD"] = "7";  // by which they find each other
  EXPECT_FALSE(launch(several_hosts).one_host);
}

}  // namespace
}  // namespace lockstep::comm
