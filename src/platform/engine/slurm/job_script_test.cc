#include "platform/engine/slurm/job_script.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

const model::AttemptName kAttempt{"0123456789abcdef", model::parse_attempt_id("demo/7.2").value()};

SlurmJobRequest job_of_two() {
  return {.attempt = kAttempt,
          .nodes = {{0, "n1", "/shared/a 'b'/node-0"}, {1, "n2", "/shared/a 'b'/node-1"}},
          .cores = 4,
          .gpus = 2,
          .time_limit = std::chrono::seconds(90),
          .partition = "gpus",
          .folder = "/shared/a 'b'"};
}

SlurmJobOptions job_options() {
  return {.installation = "cafe",
          .partitions = {},
          .account = "team",
          .more = {"--qos=high"},
          .program = "/shared/bin/lockstep"};
}

TEST(JobScript, ACommentNamesTheAttemptAndTheInstallation) {
  const std::string comment = slurm_comment("cafe", {kAttempt, 2});
  EXPECT_EQ(comment, "lockstep cafe:0123456789abcdef:demo/7.2 nodes=2");
  EXPECT_EQ(job_in_comment(comment, "cafe"), (SlurmJobName{kAttempt, 2}));
  EXPECT_EQ(job_in_comment(comment, "beef"), std::nullopt);
  EXPECT_EQ(job_in_comment("another", "cafe"), std::nullopt);
}

TEST(JobScript, TheJobHasTheHostsAndDevicesOfTheGang) {
  const auto words = sbatch_command(job_of_two(), job_options());
  for (const char* word : {"--parsable", "--no-requeue", "--no-kill", "--nodes=2",
                           "--nodelist=n1,n2", "--cpus-per-task=4", "--gres=gpu:2", "--time=2",
                           "--signal=TERM@90", "--partition=gpus", "--account=team", "--qos=high",
                           "--comment=lockstep cafe:0123456789abcdef:demo/7.2 nodes=2"})
    EXPECT_NE(std::ranges::find(words, word), words.end()) << word;
  EXPECT_EQ(words.back(), "/shared/a 'b'/slurm.sh");
}

TEST(JobScript, WithoutHostsSlurmChoosesThemAndTheScriptAsksWhichTheyAre) {
  SlurmJobRequest job = job_of_two();
  for (SlurmJobNode& node : job.nodes) node.host.clear();
  job.excluded = {"n3", "n4"};
  const auto words = sbatch_command(job, job_options());
  EXPECT_NE(std::ranges::find(words, "--exclude=n3,n4"), words.end());
  EXPECT_TRUE(std::ranges::none_of(
      words, [](const std::string& word) { return word.starts_with("--nodelist"); }));
  const std::string script = job_script(job, job_options());
  for (const char* line :
       {"hosts=($(scontrol show hostnames", "host=${hosts[1]}",
        "echo \"$host\" >'/shared/a '\\''b'\\''/node-1/step.host'", "--nodelist=\"$host\"",
        "agent --address \"${addresses[$host]:-$host}\" '"})
    EXPECT_NE(script.find(line), std::string::npos) << line << "\n" << script;
}

TEST(JobScript, TheJobAsksForTheMemoryThatTheRunStates) {
  SlurmJobRequest job = job_of_two();
  const auto asks = [&](const std::string& word) {
    const auto words = sbatch_command(job, job_options());
    return std::ranges::find(words, word) != words.end();
  };
  job.memory = Bytes((3 << 20) + 1);
  EXPECT_TRUE(asks("--mem=4M"));
  job.memory = Bytes(0);
  EXPECT_FALSE(asks("--mem=0M"));
}

TEST(JobScript, TheTypeOfTheGpusIsPartOfTheirGres) {
  SlurmJobRequest job = job_of_two();
  job.gpus = 4;
  job.asked.gpu_type = "h100";
  const auto words = sbatch_command(job, job_options());
  EXPECT_NE(std::ranges::find(words, "--gres=gpu:h100:4"), words.end());
}

TEST(JobScript, TheRunsOwnRequestsFollowThoseOfTheDaemon) {
  SlurmJobRequest job = job_of_two();
  job.asked = {.account = "mine",
               .qos = "low",
               .constraint = "a100",
               .partition = "big",
               .switches = "1@5:00",
               .options = {{"--reservation=night"}}};
  const auto words = sbatch_command(job, job_options());
  const auto place = [&](const char* word) { return std::ranges::find(words, word); };
  EXPECT_LT(place("--account=team"), place("--account=mine"));
  EXPECT_LT(place("--partition=gpus"), place("--partition=big"));
  EXPECT_LT(place("--qos=high"), place("--qos=low"));
  for (const char* word : {"--constraint=a100", "--switches=1@5:00", "--reservation=night"})
    EXPECT_NE(place(word), words.end()) << word;
  EXPECT_EQ(words.back(), "/shared/a 'b'/slurm.sh");
}

TEST(JobScript, AJobOfAnotherAccountHasItsEnvironment) {
  SlurmJobRequest job = job_of_two();
  EXPECT_EQ(job_script(job, job_options()).find("export HOME"), std::string::npos);
  job.account = {.name = "ann", .groups = {}, .home = "/home/ann", .shell = "/bin/zsh"};
  const auto words = sbatch_command(job, job_options());
  EXPECT_NE(std::ranges::find(words, "--uid=ann"), words.end());
  EXPECT_NE(job_script(job, job_options())
                .find("export HOME='/home/ann' USER='ann' LOGNAME='ann' SHELL='/bin/zsh'\n"),
            std::string::npos);
}

TEST(JobScript, EachNodeHasAStepOfItsNameWithTheAgent) {
  const std::string script = job_script(job_of_two(), job_options());
  EXPECT_TRUE(script.starts_with("#!/bin/bash\n"));
  EXPECT_NE(script.find("--nodelist='n2' --job-name=node-1 "), std::string::npos);
  EXPECT_NE(script.find("'/shared/bin/lockstep' agent '/shared/a '\\''b'\\''/node-1/launch.json'"),
            std::string::npos);
  EXPECT_NE(script.find("LOCKSTEP_NODE_TOKEN='cafe:0123456789abcdef:demo/7.2/1'"),
            std::string::npos);
  EXPECT_NE(script.find("echo $? >'/shared/a '\\''b'\\''/node-1/step.end'"), std::string::npos);
  EXPECT_TRUE(script.ends_with("wait\n"));
}

}  // namespace
}  // namespace lockstep::engine
