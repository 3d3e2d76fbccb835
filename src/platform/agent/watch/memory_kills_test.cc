#include "platform/agent/watch/memory_kills.h"

#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::agent {
namespace {

class MemoryKillsTest : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    EXPECT_TRUE(make_folders((root_ / file).parent_path()));
    EXPECT_TRUE(write_file(root_ / file, text));
  }
  const TemporaryFolder root_;
};

TEST_F(MemoryKillsTest, TheCounterIsThatOfTheOwnCgroupOfEitherVersion) {
  write("slurm/job_1/memory.events", "");
  EXPECT_EQ(memory_kill_counter("0::/slurm/job_1\n", root_.path()),
            root_ / "slurm/job_1/memory.events");
  write("memory/slurm/memory.oom_control", "");
  EXPECT_EQ(memory_kill_counter("8:pids:/\n4:memory:/slurm\n0::/\n", root_.path()),
            root_ / "memory/slurm/memory.oom_control");
}

TEST_F(MemoryKillsTest, AContainerSeesItsCgroupAsTheRoot) {
  write("memory.events", "");
  EXPECT_EQ(memory_kill_counter("0::/kubepods/pod-1\n", root_.path()), root_ / "memory.events");
  EXPECT_EQ(memory_kill_counter("", root_.path()), "");
  EXPECT_EQ(memory_kill_counter("3:cpu:/\n", root_.path()), "");
}

TEST_F(MemoryKillsTest, TheyIncreaseWithTheCounter) {
  write("memory.events", "low 0\noom 1\noom_kill 1\n");
  MemoryKills kills(root_ / "memory.events");
  EXPECT_FALSE(kills.increased());
  write("memory.events", "low 0\noom 2\noom_kill 2\noom_group_kill 0\n");
  EXPECT_TRUE(kills.increased());
  EXPECT_FALSE(kills.increased());
  write("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  MemoryKills old_version(root_ / "memory.oom_control");
  write("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  EXPECT_TRUE(old_version.increased());
}

TEST_F(MemoryKillsTest, WithoutACounterThereAreNone) {
  MemoryKills kills("");
  EXPECT_FALSE(kills.increased());
  MemoryKills missing(root_ / "missing");
  EXPECT_FALSE(missing.increased());
}

}  // namespace
}  // namespace lockstep::agent
