// Whole agents whose ranks run in a venv, in an image of a Podman that this test writes, or behind
// a wrapper as Apptainer is one.
#include <csignal>

#include <gmock/gmock.h>

#include "platform/agent/agent_for_test.h"

namespace lockstep::agent {
namespace {

using model::SoftwareKind;
using ::testing::AllOf;
using ::testing::HasSubstr;

class AgentSoftwareTest : public AgentTest {
 protected:
  void program(const std::string& name, const std::string& script) {
    make_folders((root_ / name).parent_path()).value();
    ASSERT_TRUE(write_file(root_ / name, "#!/bin/sh\n" + script, 0755));
  }
};

TEST_F(AgentSoftwareTest, ARankRunsInItsVenv) {
  program("venv/bin/activate", "");
  program("venv/bin/python", "echo \"python of $VIRTUAL_ENV, rank $RANK of $TEAM\"");
  launch_.software = {.kind = SoftwareKind::venv, .name = root_ / "venv"};
  launch_.env = {{"TEAM", "blue"}};
  launch_.command = {"python", "train.py"};
  start();
  ASSERT_EQ(finish(), 0) << agent_log();
  EXPECT_EQ(daemon_.lines(0), format("python of {}, rank 0 of blue\n", (root_ / "venv").string()));
}

TEST_F(AgentSoftwareTest, AHostWithoutTheEnvironmentTellsItAndStartsNoRank) {
  launch_.software = {.kind = SoftwareKind::conda, .name = root_ / "nothing"};
  shell("echo started");
  start();
  ASSERT_EQ(finish(), 0) << agent_log();
  const auto last = daemon_.last();
  EXPECT_EQ(last.state, model::NodeState::stopping);
  EXPECT_EQ(last.stop_reason, model::StopReason::no_environment);
  EXPECT_THAT(last.message, HasSubstr("nothing is no conda environment"));
  EXPECT_TRUE(last.ranks.empty());
  EXPECT_EQ(daemon_.lines(0), "");
}

TEST_F(AgentSoftwareTest, AStopEndsAPreparationThatTakesLong) {
  program("bin/podman",
          "[ $1 != rm ] || exit 0; echo $$ > " + (root_ / "podman").string() + "; exec sleep 1000");
  path_ = (root_ / "bin").string() + ":/usr/bin:/bin";
  launch_.software = {.kind = SoftwareKind::image, .name = "train"};
  shell("echo started");
  start();
  ASSERT_TRUE(eventually([&] { return !read_file(root_ / "podman").value_or("").empty(); }));
  EXPECT_TRUE(eventually([&] { return daemon_.last().state == model::NodeState::allocated; }));
  daemon_.order_stop();
  ASSERT_EQ(finish(), 0) << agent_log();
  EXPECT_TRUE(daemon_.last().ranks.empty());
}

// --- An image ---

// Its `podman` makes a mount namespace with a folder that the host lacks, as an image has its own.
class AgentImageTest : public AgentSoftwareTest {
 protected:
  AgentImageTest() {
    const std::string root = root_.path().string();
    program("bin/podman", format(R"(
case "$1 $2" in
  "run --detach")
    for hold; do :; done
    LOCKSTEP_HOLD=1 setsid unshare --mount sh -c 'mount -t tmpfs none /mnt && echo inside > /mnt/image &&
        echo $$ > {0}/holder || echo none > {0}/holder
        exec 3<>"$0" 4<"$0" 3>&-; read -r _ <&4' "$hold" </dev/null >/dev/null 2>&1 &
    while [ ! -s {0}/holder ]; do sleep 0.02; done
    ! grep -q none {0}/holder ;;
  "inspect --type") cat {0}/holder ;;
esac
)",
                                 root));
    path_ = root + "/bin:/usr/bin:/bin";
    launch_.software = {.kind = SoftwareKind::image, .name = "train"};
  }
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "a mount namespace of a test needs root";
  }
  pid_t holder() const { return std::atoi(read_file(root_ / "holder").value_or("0").c_str()); }
  bool is_held() const { return holder() > 0 && find_process(holder()).has_value(); }
};

TEST_F(AgentImageTest, ARankIsAChildOfTheAgentWithTheFilesOfTheImage) {
  shell("cat /mnt/image; echo parent $PPID; pwd; exit 5");
  start();
  ASSERT_EQ(finish(), 0) << agent_log();
  EXPECT_EQ(daemon_.lines(0),
            format("inside\nparent {}\n{}\n", daemon_.last().agent_pid, root_.path().string()));
  EXPECT_EQ(rank(0).state, model::RankState::exited);
  EXPECT_EQ(rank(0).code, 5);
  EXPECT_TRUE(eventually([&] { return !is_held(); }));
}

TEST_F(AgentImageTest, SignalsOfRanksAreReportedAsTheyWere) {
  shell("kill -SEGV $$");
  start();
  ASSERT_EQ(finish(), 0) << agent_log();
  EXPECT_EQ(rank(0).state, model::RankState::killed);
  EXPECT_EQ(rank(0).code, SIGSEGV);
}

TEST_F(AgentImageTest, ARankThatIsStoppedStillHasTheFilesOfTheImage) {
  shell("trap 'sleep 0.3; cat /mnt/image; exit 0' TERM; echo ready; while :; do sleep 0.02; done");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.has_line_with("ready"); })) << agent_log();
  daemon_.order_stop();
  ASSERT_EQ(finish(), 0) << agent_log();
  EXPECT_THAT(daemon_.lines(0), HasSubstr("inside"));
  EXPECT_TRUE(eventually([&] { return !is_held(); }));
}

TEST_F(AgentImageTest, RanksAndContainerEndWithAKilledAgent) {
  shell("echo ready; exec sleep 1000");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.has_line_with("ready"); })) << agent_log();
  ASSERT_TRUE(is_held());
  const auto pid = static_cast<pid_t>(rank(0).pid);
  ::kill(agent_, SIGKILL);
  ::waitpid(agent_, nullptr, 0);
  agent_ = 0;
  EXPECT_TRUE(eventually([&] { return !find_process(pid); }));
  EXPECT_TRUE(eventually([&] { return !is_held(); }));
}

// --- A wrapper ---

// Passes SIGTERM on, as Apptainer does.
constexpr auto kWrapper = R"(
while [ "${1%.sif}" = "$1" ]; do shift; done
shift
"$@" &
child=$!
trap 'kill -TERM $child 2>/dev/null' TERM
wait $child
code=$?
while kill -0 $child 2>/dev/null; do wait $child; code=$?; done
exit $code
)";

TEST_F(AgentSoftwareTest, ARankBehindAWrapperGetsEachSignalOnce) {
  program("bin/apptainer", kWrapper);
  program("train.sif", "");
  launch_.software = {.kind = SoftwareKind::image,
                      .name = root_ / "train.sif",
                      .runtime = model::ImageRuntime::apptainer};
  launch_.env["PATH"] = (root_ / "bin").string() + ":/usr/bin:/bin";
  shell(
      "n=0; trap 'n=$((n+1))' TERM; echo ready; while [ $n = 0 ]; do sleep 0.02; done; "
      "for i in 1 2 3 4 5 6; do sleep 0.05; done; echo signals $n; exit 7");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.has_line_with("ready"); })) << agent_log();
  daemon_.order_stop();
  ASSERT_EQ(finish(), 0) << agent_log();
  EXPECT_THAT(daemon_.lines(0), HasSubstr("signals 1\n"));
  EXPECT_EQ(rank(0).code, 7);
}

}  // namespace
}  // namespace lockstep::agent
