#include "base/os/cgroup.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/os/files.h"
#include "base/os/spawn.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr CgroupLimits kLimits{.memory = 2_GiB, .cores = 3, .processes = 500};

// A copy of the files of a machine. The kernel makes the files of a group with its folder; here the
// test does.
class CopiedCgroups : public ::testing::Test {
 protected:
  void add(const std::string& folder, const std::vector<std::string>& files) {
    ASSERT_TRUE(make_folders(root_ / folder));
    for (const std::string& file : files) ASSERT_TRUE(write_file(root_ / folder / file, ""));
  }
  void set(const std::string& file, const std::string& content) {
    ASSERT_TRUE(make_folders((root_ / file).parent_path()));
    ASSERT_TRUE(write_file(root_ / file, content));
  }
  std::string content(const std::string& file) {
    return read_file(root_ / file).value_or("(no file)");
  }
  // Version 2, as systemd mounts it.
  void add_version_2(const std::string& controllers) {
    for (const std::string folder : {".", "lockstep", "lockstep/host"})
      add(folder, {"cgroup.subtree_control"});
    set("cgroup.controllers", controllers);
    add("lockstep/host/demo",
        {"cgroup.procs", "memory.max", "memory.swap.max", "cpu.max", "pids.max"});
  }
  CgroupFolder open() { return *CgroupFolder::open(root_.path(), "lockstep/host"); }

  const TemporaryFolder root_;
};

TEST_F(CopiedCgroups, Version2HasOneGroupWithAllLimits) {
  add_version_2("cpuset cpu io memory hugetlb pids rdma misc\n");
  const CgroupFolder folder = open();
  EXPECT_THAT(folder.missing(), IsEmpty());
  EXPECT_THAT(folder.make("demo", kLimits).value(),
              ElementsAre(root_ / "lockstep/host/demo/cgroup.procs"));
  EXPECT_EQ(content("cgroup.subtree_control"), "+memory +cpu +pids");
  EXPECT_EQ(content("lockstep/host/cgroup.subtree_control"), "+memory +cpu +pids");
  EXPECT_EQ(content("lockstep/host/demo/memory.max"), "2147483648");
  EXPECT_EQ(content("lockstep/host/demo/memory.swap.max"), "0");
  EXPECT_EQ(content("lockstep/host/demo/cpu.max"), "300000 100000");
  EXPECT_EQ(content("lockstep/host/demo/pids.max"), "500");
  EXPECT_THAT(folder.list(), ElementsAre("demo"));
}

TEST_F(CopiedCgroups, ALimitThatIsNotStatedIsNotSet) {
  add_version_2("cpu memory pids\n");
  ASSERT_TRUE(open().make("demo", {.processes = 7}));
  EXPECT_EQ(content("lockstep/host/demo/memory.max"), "");
  EXPECT_EQ(content("lockstep/host/demo/cpu.max"), "");
  EXPECT_EQ(content("lockstep/host/demo/pids.max"), "7");
}

TEST_F(CopiedCgroups, AControllerThatTheKernelLacksIsNamed) {
  add_version_2("cpuset pids\n");
  const CgroupFolder folder = open();
  EXPECT_THAT(folder.missing(), ElementsAre("memory", "cpu"));
  EXPECT_EQ(content("cgroup.subtree_control"), "+pids");
  EXPECT_TRUE(folder.make("demo", kLimits));
}

TEST_F(CopiedCgroups, Version1HasAGroupForEachController) {
  for (const std::string controller : {"memory", "cpu", "pids"}) add(controller, {"cgroup.procs"});
  set("unified/cgroup.controllers", "hugetlb\n");
  add("memory/lockstep/host/demo", {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"});
  add("cpu/lockstep/host/demo", {"cpu.cfs_period_us", "cpu.cfs_quota_us"});
  add("pids/lockstep/host/demo", {"pids.max"});
  const CgroupFolder folder = open();
  EXPECT_THAT(folder.make("demo", kLimits).value(),
              ElementsAre(root_ / "memory/lockstep/host/demo/cgroup.procs",
                          root_ / "cpu/lockstep/host/demo/cgroup.procs",
                          root_ / "pids/lockstep/host/demo/cgroup.procs"));
  EXPECT_EQ(content("memory/lockstep/host/demo/memory.limit_in_bytes"), "2147483648");
  EXPECT_EQ(content("memory/lockstep/host/demo/memory.memsw.limit_in_bytes"), "2147483648");
  EXPECT_EQ(content("cpu/lockstep/host/demo/cpu.cfs_quota_us"), "300000");
  EXPECT_EQ(content("pids/lockstep/host/demo/pids.max"), "500");
}

TEST_F(CopiedCgroups, AMachineWithoutControlGroupsIsNamed) {
  const auto none = CgroupFolder::open(root_.path(), "lockstep/host");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::not_found);
  EXPECT_THAT(none.error().message, HasSubstr("has no control groups"));
}

TEST_F(CopiedCgroups, TheMemoryIsThatOfTheOwnGroupOfEitherVersion) {
  set("slurm/job_1/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 0\n");
  set("slurm/job_1/memory.max", "max\n");
  set("slurm/memory.max", "1048576\n");
  const MemoryGroup second = memory_group_of("0::/slurm/job_1\n", root_.path());
  EXPECT_EQ(second.kill_counter, root_ / "slurm/job_1/memory.events");
  EXPECT_EQ(second.kills(), 2);
  EXPECT_EQ(second.limit, 1_MiB) << "of the group above";
  set("memory/slurm/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  set("memory/slurm/memory.limit_in_bytes", "9223372036854771712\n");
  const MemoryGroup first = memory_group_of("8:pids:/\n4:memory:/slurm\n0::/\n", root_.path());
  EXPECT_EQ(first.kill_counter, root_ / "memory/slurm/memory.oom_control");
  EXPECT_EQ(first.kills(), 4);
  EXPECT_EQ(first.limit, Bytes(0)) << "which is no limit";
}

TEST_F(CopiedCgroups, AContainerSeesItsGroupAsTheRoot) {
  set("memory.events", "oom_kill 0\n");
  set("memory.max", "4096\n");
  const MemoryGroup group = memory_group_of("0::/kubepods/pod-1\n", root_.path());
  EXPECT_EQ(group.kill_counter, root_ / "memory.events");
  EXPECT_EQ(group.limit, Bytes(4096));
  EXPECT_EQ(memory_group_of("", root_.path()).kill_counter, "");
  EXPECT_EQ(memory_group_of("3:cpu:/\n", root_.path()).kills(), 0);
}

// On the machine itself, if this process may make groups.
class OwnCgroups : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = CgroupFolder::open(kCgroupRoot, name_);
    if (!opened) GTEST_SKIP() << opened.error().message;
    folder_ = *std::move(opened);
  }
  void TearDown() override {
    if (!folder_) return;
    for (const std::string controller : {".", "memory", "cpu", "pids"})
      ::rmdir((fs::path(kCgroupRoot) / controller / name_).c_str());
  }
  // The status of a shell with this script.
  int run(const std::string& script, const CgroupLimits& limits) {
    const Fd output = *open_file("/dev/null", O_WRONLY);
    const auto pid = spawn({.command = {"/bin/sh", "-c", script},
                            .environment = {{"PATH", "/usr/bin:/bin"}},
                            .folder = "/",
                            .output = output.get(),
                            .cgroups = folder_->make("node", limits).value()},
                           ProcessLifetime::ends_with_thread);
    int status = -1;
    EXPECT_EQ(::waitpid(pid.value(), &status, 0), *pid);
    return status;
  }

  const std::string name_ = format("lockstep-test-{}", ::getpid());
  std::optional<CgroupFolder> folder_;
};

TEST_F(OwnCgroups, TheKernelEndsAProcessThatUsesMoreMemory) {
  if (!folder_->missing().empty() && folder_->missing().front() == "memory") GTEST_SKIP();
  const int status = run("head -c 256M /dev/zero | tail -c 200M", {.memory = 32_MiB});
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGKILL);
  EXPECT_TRUE(folder_->remove("node"));
  EXPECT_THAT(folder_->list(), IsEmpty());
}

TEST_F(OwnCgroups, AGroupThatIsRemovedEndsItsProcesses) {
  ASSERT_EQ(run("exit 0", {.cores = 1, .processes = 20}), 0);
  ASSERT_EQ(run("sleep 600 > /dev/null 2>&1 & exit 0", {.processes = 20}), 0);
  const auto removed = folder_->remove("node");
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, Code::unavailable);
  const auto deadline = Deadline::after(std::chrono::seconds(20));
  while (!folder_->remove("node") && !deadline.passed()) ::usleep(1000);
  EXPECT_THAT(folder_->list(), IsEmpty());
}

}  // namespace
}  // namespace lockstep
