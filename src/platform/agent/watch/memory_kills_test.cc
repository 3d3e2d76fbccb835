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

TEST_F(MemoryKillsTest, TheyIncreaseWithTheCounter) {
  write("memory.events", "low 0\noom 1\noom_kill 1\n");
  MemoryKills kills({.kill_counter = root_ / "memory.events"}, Bytes(0));
  EXPECT_FALSE(kills.increased());
  write("memory.events", "low 0\noom 2\noom_kill 2\noom_group_kill 0\n");
  EXPECT_TRUE(kills.increased());
  EXPECT_FALSE(kills.increased());
  write("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  MemoryKills old_version({.kill_counter = root_ / "memory.oom_control"}, Bytes(0));
  write("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  EXPECT_TRUE(old_version.increased());
}

TEST_F(MemoryKillsTest, WithoutACounterThereAreNone) {
  MemoryKills kills({}, Bytes(0));
  EXPECT_FALSE(kills.increased());
  MemoryKills missing({.kill_counter = root_ / "missing"}, Bytes(0));
  EXPECT_FALSE(missing.increased());
}

TEST_F(MemoryKillsTest, TheNodeHasALimitIfTheCgroupEnforcesWhatTheRunStates) {
  const auto limit = [](Bytes of_group, Bytes stated) {
    return MemoryKills({.kill_counter = {}, .limit = of_group}, stated).node_limit();
  };
  EXPECT_EQ(limit(2_GiB, 2_GiB), 2_GiB);
  EXPECT_EQ(limit(2_GiB + Bytes(4096), 2_GiB), 2_GiB) << "rounded up";
  EXPECT_EQ(limit(8_GiB, 2_GiB), Bytes(0)) << "of a container with other programs";
  EXPECT_EQ(limit(Bytes(0), 2_GiB), Bytes(0));
  EXPECT_EQ(limit(2_GiB, Bytes(0)), Bytes(0));
}

}  // namespace
}  // namespace lockstep::agent
