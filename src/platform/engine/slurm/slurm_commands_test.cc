#include "platform/engine/slurm/slurm_commands.h"

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

TEST(SlurmCommands, ErrorsAreToldWithoutTheWarningsBeforeThem) {
  EXPECT_EQ(slurm_error_words("srun: lacks support for cpu binding\n"
                              "slurmstepd: error: execve(): /bin/none: No such file\n"
                              "srun: error: n1: task 0: Exited with exit code 2\n"),
            "slurmstepd: error: execve(): /bin/none: No such file srun: error: n1: task 0: Exited "
            "with exit code 2");
  EXPECT_EQ(slurm_error_words("srun: Requested nodes are busy\n"),
            "srun: Requested nodes are busy");
  EXPECT_EQ(slurm_error_words(""), "");
}

TEST(SlurmCommands, ASilentControllerAndMungeMayAnswerLater) {
  EXPECT_TRUE(
      is_slurm_away("sbatch: error: Batch job submission failed: Unable to contact slurm "
                    "controller (connect failure)"));
  EXPECT_TRUE(is_slurm_away("slurm_load_jobs error: Socket timed out on send/recv operation"));
  EXPECT_TRUE(is_slurm_away("squeue: error: If munged is up, restart with --num-threads=10"));
  EXPECT_FALSE(is_slurm_away("sbatch: error: invalid partition specified: missing"));
}

TEST(SlurmCommands, AJobWhoseRequestsDoNotExistIsRefusedForGood) {
  EXPECT_TRUE(is_slurm_refusal(
      "sbatch: error: Batch job submission failed: Invalid feature specification"));
  EXPECT_TRUE(is_slurm_refusal("sbatch: error: invalid partition specified: missing"));
  EXPECT_FALSE(is_slurm_refusal(
      "sbatch: error: QOSMaxSubmitJobPerUserLimit: Job violates accounting/QOS policy"))
      << "other jobs end";
}

}  // namespace
}  // namespace lockstep::engine
