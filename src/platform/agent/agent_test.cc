#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <netinet/in.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/os/environment.h"
#include "base/os/files.h"
#include "base/steady_clock.h"
#include "comm/rendezvous/client.h"
#include "map/discover/discover.h"
#include "net/crypto.h"
#include "platform/agent/agent_for_test.h"
#include "platform/agent/ranks/rank_binding.h"
#include "platform/host/machine.h"

namespace lockstep::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::filesystem::path;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool is_listening(int port) {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

std::map<std::string, std::string> variables(const std::string& lines) {
  std::map<std::string, std::string> result;
  for (std::size_t begin = 0; begin < lines.size();) {
    std::size_t end = lines.find('\n', begin);
    std::size_t equals = lines.find('=', begin);
    result[lines.substr(begin, equals - begin)] = lines.substr(equals + 1, end - equals - 1);
    begin = end + 1;
  }
  return result;
}

std::string own_folder() { return std::filesystem::read_symlink("/proc/self/exe").parent_path(); }

TEST_F(AgentTest, ARankFindsTheEnvironmentThatIsDocumented) {
  launch_.command = {"env"};
  launch_.devices = {4, 6};
  launch_.gpus = true;
  launch_.first_rank = 2;
  launch_.world_size = 4;
  launch_.nodes = 2;
  launch_.env = {{"COLOR", "blue"}, {"RANK", "77"}, {"LANG", "C.UTF-8"}, {"TERM", "xterm"}};
  for (const auto& [name, value] : own_environment())
    if (is_node_variable(name)) ::unsetenv(name.c_str());
  ::setenv("NCCL_IB_HCA", "mlx5", 1);
  start();
  ASSERT_EQ(finish(), 0) << agent_log();
  auto found = variables(daemon_.lines(3));
  auto last = daemon_.last();
  const std::string socket = found["LOCKSTEP_REPORT"];
  EXPECT_TRUE(socket.ends_with("/rank-3"));
  for (auto name : {"HOME", "USER", "LOGNAME", "SHELL", "TZ", "VIRTUAL_ENV"}) found.erase(name);
  std::erase_if(found, [](const auto& entry) { return entry.first.starts_with("LC_"); });
  EXPECT_EQ(found, (std::map<std::string, std::string>{
                       {"PATH", "/usr/bin:/bin:" + own_folder()},
                       {"TERM", "xterm"},
                       {"LANG", "C.UTF-8"},
                       {"COLOR", "blue"},
                       {"RANK", "3"},
                       {"LOCAL_RANK", "1"},
                       {"WORLD_SIZE", "4"},
                       {"LOCAL_WORLD_SIZE", "2"},
                       {"GROUP_RANK", "0"},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", format("{}", last.master_port)},
                       {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                       {"CUDA_VISIBLE_DEVICES", "4,6"},
                       {"NCCL_IB_HCA", "mlx5"},
                       {"NCCL_SOCKET_IFNAME", "=lo"},
                       {"OMP_NUM_THREADS", "1"},
                       {"GLOO_SOCKET_IFNAME", "lo"},
                       {"LOCKSTEP_HOME", root_.path().string()},
                       {"LOCKSTEP_STORE", launch_.generation},
                       {"LOCKSTEP_RUN", "demo/1"},
                       {"LOCKSTEP_ATTEMPT", "demo/1.2"},
                       {"LOCKSTEP_EPOCH", "2"},
                       {"LOCKSTEP_NODE", "0"},
                       {"LOCKSTEP_HOST_ID", "host-a"},
                       {"LOCKSTEP_SECRET_FILE", (root_ / "node/secret").string()},
                       {"LOCKSTEP_RENDEZVOUS", format("127.0.0.1:{}", last.rendezvous_port)},
                       {"LOCKSTEP_REPORT", socket},
                       {"LOCKSTEP_CHECKPOINT_DIR", (root_ / "checkpoints").string()},
                       {"LOCKSTEP_FABRIC_PROVIDER", "tcp"},
                       {"LOCKSTEP_ADDRESS", "127.0.0.1"},
                       {"LOCKSTEP_FLIGHT_DIR", (root_ / "node/flight").string()},
                       {"LOCKSTEP_PROFILE_DIR", (root_ / "node/profile").string()},
                       {"LOCKSTEP_MEDIA_DIR", (root_ / "node/media").string()},
                       {"LOCKSTEP_NODE_TOKEN", token_}}));
}

std::string processors_allowed() {
  std::string said = read_file("/proc/self/status").value();
  said.erase(0, said.find("Cpus_allowed_list"));
  return said.substr(0, said.find('\n') + 1);
}

TEST_F(AgentTest, RanksRunOnTheProcessorsOfTheirIslands) {
  const auto first = map::processors_of(map::DeviceKind::core, std::vector{0});
  const auto second = map::processors_of(map::DeviceKind::core, std::vector{1});
  if (!second) GTEST_SKIP() << second.error().message;
  launch_.devices = {0, 1};
  launch_.islands = {{0}, {1}};
  shell("grep Cpus_allowed_list /proc/self/status");
  start();
  ASSERT_EQ(finish(), 0) << agent_log();
  EXPECT_NE(daemon_.lines(0), processors_allowed());
  EXPECT_NE(daemon_.lines(0), daemon_.lines(1));
  EXPECT_NE(agent_log().find(format("rank 0 runs on processors {}\n", joined(*first, ","))),
            std::string::npos)
      << agent_log();
}

TEST_F(AgentTest, RanksRunAnywhereWhereTheUserSaysSoOrTheMapKnowsAnotherMachine) {
  launch_.islands = {{0}};
  launch_.env["LOCKSTEP_BIND"] = "none";
  shell("grep Cpus_allowed_list /proc/self/status");
  start();
  ASSERT_EQ(finish(), 0) << agent_log();
  EXPECT_EQ(daemon_.lines(0), processors_allowed());
  launch_.islands = {{100'000}};
  EXPECT_EQ(rank_processors(launch_).value(), std::vector<std::vector<int>>(1));
  launch_.env.clear();
  EXPECT_EQ(rank_processors(launch_).value(), std::vector<std::vector<int>>(1));
  launch_.gpus = true;
  launch_.devices = {100'000};
  launch_.islands.clear();
  EXPECT_EQ(rank_processors(launch_).value(), std::vector<std::vector<int>>(1));
  launch_.env["LOCKSTEP_BIND"] = "socket";
  const auto refused = rank_processors(launch_);
  EXPECT_EQ(refused.error().code, Code::invalid);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("LOCKSTEP_BIND"), HasSubstr("'socket'"),
                                             HasSubstr("island"), HasSubstr("none")));
}

TEST_F(AgentTest, TheMeetingPlaceIsOnAPortOfTheRunsRange) {
  launch_.env["LOCKSTEP_PORT_RANGE"] = "23201-23260";
  shell("true");
  start();
  ASSERT_EQ(finish(), 0);
  EXPECT_GE(daemon_.last().rendezvous_port, 23201);
  EXPECT_LE(daemon_.last().rendezvous_port, 23260);
}

TEST_F(AgentTest, TheSecretIsThereForTheRanksAndNowhereElse) {
  shell("cat $LOCKSTEP_SECRET_FILE; ls -l $LOCKSTEP_SECRET_FILE; pwd");
  start();
  ASSERT_EQ(finish(), 0);
  EXPECT_TRUE(daemon_.has_line_with(launch_.secret + "-rw-------"));
  EXPECT_TRUE(daemon_.has_line_with("\n" + root_.path().string() + "\n"));
  EXPECT_FALSE(std::filesystem::exists(root_ / "node/secret"));
  EXPECT_EQ(agent_log().find(launch_.secret), std::string::npos);
  EXPECT_EQ(agent_log().find(launch_.token), std::string::npos);
}

TEST_F(AgentTest, ExitCodesAndSignalsAreReportedAsTheyWere) {
  launch_.devices = {0, 1, 2};
  shell("case $RANK in 0) exit 0;; 1) exit 3;; 2) kill -SEGV $$;; esac");
  start();
  ASSERT_EQ(finish(), 0);
  auto last = daemon_.last();
  ASSERT_EQ(last.ranks.size(), 3u);
  EXPECT_EQ(last.ranks[0].state, model::RankState::exited);
  EXPECT_EQ(last.ranks[0].code, 0);
  EXPECT_EQ(last.ranks[1].code, 3);
  EXPECT_EQ(last.ranks[2].state, model::RankState::killed);
  EXPECT_EQ(last.ranks[2].code, SIGSEGV);
  for (const auto& rank : last.ranks) {
    EXPECT_FALSE(rank.signalled_by_agent);
    EXPECT_TRUE(rank.ended.has_value());
  }
}

TEST_F(AgentTest, ItSaysByWhichClockItTellsWhenARankEnded) {
  const MonotonicClock steady;
  const Duration before = steady.since_boot();
  shell("exit 3");
  start();
  ASSERT_EQ(finish(), 0);
  const auto last = daemon_.last();
  EXPECT_EQ(last.boot, steady.boot_id());
  const Duration apart = last.clock_zero.value() - wall_time_at_boot(SystemClock(), steady);
  EXPECT_LT(apart < Duration(0) ? -apart : apart, seconds(1));
  const Duration ended = last.ranks.at(0).ended.value() - *last.clock_zero;
  EXPECT_GT(ended, before);
  EXPECT_LT(ended, steady.since_boot());
}

TEST_F(AgentTest, ItSaysWhichStartOfAnAgentItIs) {
  const Time before = SystemClock().now();
  shell("exit 0");
  start();
  ASSERT_EQ(finish(), 0);
  const auto last = daemon_.last();
  EXPECT_EQ(last.incarnation.size(), 16u);
  EXPECT_EQ(last.machine, host::this_machine().host);
  EXPECT_GE(last.agent_started, before);
  EXPECT_LE(last.agent_started, SystemClock().now());
}

TEST_F(AgentTest, ProgramsThatCannotBeStartedAreNamed) {
  struct Case {
    std::string program, folder, words;
  };
  path plain = root_ / "plain";
  ASSERT_TRUE(write_file(plain, "no program"));
  const Case cases[] = {{"no-such-program", root_.path(), "no program 'no-such-program' in PATH"},
                        {plain, root_.path(), "Permission denied"},
                        {"/bin/true", "/no/such/folder", "working folder /no/such/folder"}};
  for (const Case& c : cases) {
    launch_.command = {c.program};
    launch_.working_folder = c.folder;
    FakeDaemon daemon;
    start(daemon);
    EXPECT_EQ(finish(), 0);
    EXPECT_EQ(daemon.last().state, model::NodeState::stopping);
    EXPECT_NE(daemon.last().message.find(c.words), std::string::npos) << daemon.last().message;
    EXPECT_EQ(daemon.last().stop_reason == model::StopReason::no_environment,
              c.folder == "/no/such/folder")
        << "another attempt would lack the folder, too";
  }
}

TEST_F(AgentTest, OutputComesInOrderWhateverItHolds) {
  shell(
      "for i in $(seq 1 500); do echo out $i; echo err $i >&2; done; printf 'a\\377b\\n'; "
      "head -c 20000 /dev/zero | tr '\\0' z; echo; printf 'no end'");
  start();
  ASSERT_EQ(finish(), 0);
  std::string expected;
  for (int i = 1; i <= 500; ++i) expected += format("out {}\nerr {}\n", i, i);
  expected +=
      "a\xef\xbf\xbd"
      "b\n" +
      std::string(16'384, 'z') + " [cut: 3616 bytes more in rank-0.log]\nno end\n";
  EXPECT_EQ(daemon_.lines(0), expected);
  EXPECT_TRUE(read_file(root_ / "node/rank-0.log")->ends_with("zzz\nno end"));
}

TEST_F(AgentTest, TheValuesOfSecretsLeaveTheAgentAsStars) {
  launch_.env["KEY"] = "correct-horse";
  launch_.env["OTHER"] = "plain-value";
  launch_.secret_variables = {"KEY"};
  shell("echo \"$KEY $OTHER\"; printf correct-; printf 'horse\\n'; printf correct-");
  start();
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.lines(0), "*** plain-value\n***\ncorrect-\n");
  EXPECT_EQ(read_file(root_ / "node/rank-0.log").value(), "*** plain-value\n***\ncorrect-");
}

TEST_F(AgentTest, AnUnfinishedLineIsToldAsItChangesAndStoredOnceWhenItEnds) {
  shell(
      "printf 'begin\\n1%%'; while ! test -e a; do sleep 0.02; done; printf '\\r2%%'; "
      "while ! test -e b; do sleep 0.02; done; printf '\\r100%%\\n'; "
      "while ! test -e c; do sleep 0.02; done");
  start();
  const auto told = [&](const std::string& text) {
    return eventually([&] {
      const auto unfinished = daemon_.last().unfinished;
      return text.empty() ? unfinished.empty()
                          : unfinished == std::vector<api::UnfinishedLine>{{0, text}};
    });
  };
  EXPECT_TRUE(told("1%"));
  ASSERT_TRUE(write_file(root_ / "a", ""));
  EXPECT_TRUE(told("2%"));
  ASSERT_TRUE(write_file(root_ / "b", ""));
  EXPECT_TRUE(told(""));
  EXPECT_TRUE(eventually([&] { return daemon_.has_line_with("100%"); }));
  ASSERT_TRUE(write_file(root_ / "c", ""));
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.lines(0), "begin\n100%\n");
}

TEST_F(AgentTest, ARankThatIgnoresTheSignalIsKilledAfterTheGrace) {
  shell("trap '' TERM; echo armed; while :; do sleep 0.05; done");
  daemon_.set_grace(0.2);
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.has_line_with("armed"); }));
  daemon_.order_stop();
  ASSERT_EQ(finish(), 0);
  auto last = daemon_.last();
  EXPECT_EQ(last.state, model::NodeState::stopping);
  EXPECT_EQ(last.ranks[0].state, model::RankState::killed);
  EXPECT_EQ(last.ranks[0].code, SIGKILL);
  EXPECT_TRUE(last.ranks[0].signalled_by_agent);
  EXPECT_TRUE(marked().empty());
}

TEST_F(AgentTest, ARankMayEndInOrderWhenItIsStopped) {
  shell("trap 'echo saved; exit 7' TERM; echo armed; while :; do sleep 0.05; done");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.has_line_with("armed"); }));
  daemon_.order_stop();
  ASSERT_EQ(finish(), 0);
  EXPECT_TRUE(daemon_.has_line_with("saved"));
  EXPECT_EQ(daemon_.last().ranks[0].code, 7);
  EXPECT_TRUE(daemon_.last().ranks[0].signalled_by_agent);
}

TEST_F(AgentTest, ARankThatEndsByTheSignalOfSlurmJustBeforeItsAgentGetsItHasNotSucceeded) {
  shell("agent=$PPID; (sleep 0.02; kill -TERM $agent) & exit 0");
  ::setenv("SLURM_STEP_ID", "0", 1);
  start();
  ::unsetenv("SLURM_STEP_ID");
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.last().ranks[0].code, 0);
  EXPECT_EQ(daemon_.last().stop_reason, model::StopReason::signal);
}

TEST_F(AgentTest, WhatARankLeavesBehindIsKilled) {
  shell(
      "setsid sleep 600 & (setsid setsid env -i /bin/sleep 600 &) ; setsid sh -c \"trap '' TERM; "
      "sleep 600\" & echo started; exit 0");
  start();
  ASSERT_EQ(finish(), 0);
  EXPECT_TRUE(daemon_.has_line_with("started"));
  EXPECT_TRUE(marked().empty());
  EXPECT_EQ(daemon_.last().ranks[0].code, 0);
}

// The engine finds processes that left the session by their token.
TEST_F(AgentTest, RanksDieWithTheirAgentAndWhatItLeavesCanBeFound) {
  launch_.devices = {0, 1};
  shell(
      "trap '' TERM HUP INT; if [ $RANK = 0 ]; then setsid sh -c \"trap '' TERM HUP; sleep 600\" & "
      "fi; echo up; while :; do sleep 0.05; done");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.has_line_with("up") && rank(1).pid > 0; }));
  const auto ranks = daemon_.last().ranks;
  const int port = daemon_.last().rendezvous_port;
  ::kill(agent_, SIGKILL);
  EXPECT_EQ(finish(), -2);
  for (const auto& dead : ranks)
    EXPECT_TRUE(eventually([&] { return ::kill(static_cast<pid_t>(dead.pid), 0) != 0; }));
  EXPECT_FALSE(is_listening(port));
  ASSERT_TRUE(eventually([&] { return !marked().empty(); }));  // not during exec
  EXPECT_TRUE(eventually([&] {
    for (pid_t pid : marked()) ::kill(pid, SIGKILL);
    return marked().empty();
  }));
}

TEST_F(AgentTest, WhatIsCollectedWhileTheDaemonIsAwayComesOnceAndInOrder) {
  shell("echo up; while [ ! -e go ]; do sleep 0.01; done; for i in $(seq 1 200); do echo $i; done");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.has_line_with("up"); }));
  daemon_.set(DaemonBehavior::away);
  ASSERT_TRUE(write_file(root_ / "go", ""));
  auto all_written = [&] {
    return read_file(root_ / "node/rank-0.log").value_or("").ends_with("\n200\n");
  };
  ASSERT_TRUE(eventually([&] { return all_written() && daemon_.calls_while_away() >= 3; }));
  daemon_.set(DaemonBehavior::up);
  ASSERT_EQ(finish(), 0);
  std::string expected = "up\n";
  for (int i = 1; i <= 200; ++i) expected += format("{}\n", i);
  EXPECT_EQ(daemon_.lines(0), expected);
}

TEST_F(AgentTest, TheTimeOutIsKeptWhileTheDaemonIsAway) {
  launch_.nodes = 2;
  launch_.time_left = milliseconds(500);
  launch_.devices = {0, 1};
  daemon_.set_all_nodes_running(false);  // running time starts with both ranks
  daemon_.set_grace(1);
  shell(
      "if [ $RANK = 1 ]; then trap '' TERM; echo armed; while :; do sleep 0.05; done; fi; "
      "exec sleep 600");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.lines(1) == "armed\n"; }));
  const int calls = daemon_.calls();
  daemon_.set_all_nodes_running(true);
  ASSERT_TRUE(eventually([&] { return daemon_.calls() >= calls + 3; }));  // it has received that
  daemon_.set(DaemonBehavior::away);
  ASSERT_TRUE(eventually([&] { return marked().empty(); }));
  daemon_.set(DaemonBehavior::up);
  ASSERT_EQ(finish(), 0);
  const auto last = daemon_.last();
  EXPECT_EQ(last.stop_reason, model::StopReason::timeout);
  EXPECT_EQ(last.ranks[0].code, SIGTERM);
  EXPECT_EQ(last.ranks[1].code, SIGKILL);
  for (const auto& rank : last.ranks) EXPECT_TRUE(rank.signalled_by_agent);
  // A busy machine ends rank 0 late, too.
  EXPECT_GE(*last.ranks[1].ended - *last.ranks[0].ended, milliseconds(250));
}

TEST_F(AgentTest, TheRunningTimeCountsFromWhenAllNodesRunThoughTheDaemonGoesAwayBefore) {
  launch_.nodes = 2;
  launch_.time_left = milliseconds(300);
  daemon_.set_all_nodes_running(false);
  shell("exec sleep 600");
  start();
  ASSERT_TRUE(eventually([&] { return !marked().empty() && daemon_.last().ranks.size() == 1; }));
  daemon_.set(DaemonBehavior::away);
  // Repeated with increasing pauses: about 750 ms.
  ASSERT_TRUE(eventually([&] { return daemon_.calls_while_away() >= 5; }));
  EXPECT_FALSE(marked().empty());
  daemon_.set_all_nodes_running(true);
  daemon_.set(DaemonBehavior::up);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.last().stop_reason, model::StopReason::timeout);
}

TEST_F(AgentTest, TheTimeOutIsKeptWhereNobodySaidThatAllNodesRunButARankReports) {
  launch_.nodes = 2;
  launch_.time_left = milliseconds(300);
  daemon_.set_all_nodes_running(false);
  shell("echo socket $LOCKSTEP_REPORT; exec sleep 600");
  start();
  report(0, R"({"kind":"progress","step":1,"steps":9})");
  daemon_.set(DaemonBehavior::away);
  ASSERT_TRUE(eventually([&] { return marked().empty(); }));
  daemon_.set(DaemonBehavior::up);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.last().stop_reason, model::StopReason::timeout);
}

// It reports nothing and is a node of a gang: it never learns that the others run.
TEST_F(AgentTest, TheTimeOutIsKeptThoughTheDaemonGoesForGoodAsAGangStartsThatReportsNothing) {
  launch_.nodes = 2;
  launch_.start_limit = milliseconds(400);
  launch_.time_left = milliseconds(300);
  daemon_.set_all_nodes_running(false);
  shell("exec sleep 600");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.last().state == model::NodeState::running; }));
  daemon_.set(DaemonBehavior::away);
  const Time last_start = daemon_.answered();
  ASSERT_TRUE(eventually([&] { return marked().empty(); }));
  daemon_.set(DaemonBehavior::up);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.last().stop_reason, model::StopReason::timeout);
  EXPECT_GT(*rank(0).ended - last_start, milliseconds(690));
}

// Otherwise a single rank would run longer than the last answer of the daemon allows.
TEST_F(AgentTest, ARankThatReportsLateWithTheDaemonGoneEndsNoLaterThanTheWaitForOthersWouldHave) {
  launch_.nodes = 2;
  launch_.start_limit = milliseconds(100);
  launch_.time_left = seconds(4);
  daemon_.set_all_nodes_running(false);
  shell("echo socket $LOCKSTEP_REPORT; exec sleep 600");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.has_line_with("socket"); }));
  daemon_.set(DaemonBehavior::away);
  // Repeated with increasing pauses: about 1,550 ms.
  ASSERT_TRUE(eventually([&] { return daemon_.calls_while_away() >= 6; }));
  const Time reported = SystemClock().now();
  report(0, R"({"kind":"progress","step":1,"steps":9})");
  ASSERT_TRUE(eventually([&] { return marked().empty(); }));
  daemon_.set(DaemonBehavior::up);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.last().stop_reason, model::StopReason::timeout);
  EXPECT_LT(*rank(0).ended, reported + seconds(4));
}

TEST_F(AgentTest, NoTimeCountsWhileTheDaemonSaysThatOtherNodesHaveNotBegun) {
  launch_.nodes = 2;
  launch_.start_limit = milliseconds(2500);
  launch_.time_left = milliseconds(300);
  daemon_.set_all_nodes_running(false);
  shell("exec sleep 600");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.last().state == model::NodeState::running; }));
  const int calls = daemon_.calls();
  ASSERT_TRUE(eventually([&] { return daemon_.calls() >= calls + 16; }));  // 200 ms between two
  EXPECT_EQ(daemon_.last().state, model::NodeState::running);
  daemon_.set_all_nodes_running(true);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.last().stop_reason, model::StopReason::timeout);
}

TEST_F(AgentTest, ARefusalThatPassesEndsNothing) {
  shell("until test -e go; do sleep 0.01; done; echo over");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.last().state == model::NodeState::running; }));
  daemon_.set(DaemonBehavior::refusing);
  ASSERT_TRUE(eventually([&] { return daemon_.refusals() >= 5; }));
  daemon_.set(DaemonBehavior::up);
  ASSERT_TRUE(write_file(root_ / "go", ""));
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(rank(0).state, model::RankState::exited);
  EXPECT_EQ(daemon_.lines(0), "over\n");
}

TEST_F(AgentTest, RanksEndWithTheLeaseOfTheirAgentThatDoesNotReachTheDaemon) {
  launch_.lease = milliseconds(1500);
  shell("echo up; exec sleep 600");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.has_line_with("up"); }));
  const int calls = daemon_.calls();
  ASSERT_TRUE(eventually([&] { return daemon_.calls() >= calls + 10; }));
  EXPECT_FALSE(marked().empty()) << "each call renews it";
  daemon_.set(DaemonBehavior::away);
  ASSERT_TRUE(eventually([&] { return marked().empty(); }));
  daemon_.set(DaemonBehavior::up);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.last().ranks[0].code, SIGTERM);
  EXPECT_TRUE(daemon_.last().ranks[0].signalled_by_agent);
  EXPECT_NE(daemon_.last().message.find("its lease"), std::string::npos);
}

TEST_F(AgentTest, ANodeThatIsRefusedForTooLongKillsItsRanksAndLeaves) {
  launch_.refusal_limit = milliseconds(300);
  shell("trap '' TERM; echo up; while :; do sleep 0.05; done");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.has_line_with("up"); }));
  daemon_.set(DaemonBehavior::refusing);
  EXPECT_EQ(finish(), 0);
  EXPECT_TRUE(marked().empty());
}

TEST_F(AgentTest, AnOrphanGoesOnAndDeliversAllOnceItsStoreKnowsIt) {
  shell("echo one; until test -e go; do sleep 0.01; done; echo two");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.has_line_with("one"); }));
  daemon_.set(DaemonBehavior::orphaning);
  ASSERT_TRUE(eventually([&] { return daemon_.orphan_calls() > 0; }));
  ASSERT_TRUE(write_file(root_ / "go", ""));
  ASSERT_TRUE(eventually([&] { return rank(0).state == model::RankState::exited; }));
  const std::size_t sent = daemon_.orphan_items();
  EXPECT_FALSE(daemon_.has_line_with("two"));
  daemon_.set(DaemonBehavior::up);
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.lines(0), "one\ntwo\n");
  EXPECT_LE(sent, 1u) << "only what was on its way";
}

TEST_F(AgentTest, AnOrphanStopsWhenItIsTold) {
  shell("echo one; sleep 1000");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.has_line_with("one"); }));
  daemon_.set(DaemonBehavior::orphaning);
  daemon_.order_stop();
  ASSERT_TRUE(eventually([&] { return rank(0).state == model::RankState::killed; }));
  EXPECT_TRUE(rank(0).signalled_by_agent);
  daemon_.set(DaemonBehavior::up);
  EXPECT_EQ(finish(), 0);
}

TEST_F(AgentTest, ADeadRankIsToldWhileOthersRun) {
  launch_.devices = {0, 1};
  shell("if [ $RANK = 1 ]; then kill -KILL $$; fi; exec sleep 600");
  start();
  ASSERT_TRUE(eventually([&] {
    auto last = daemon_.last();
    return last.ranks.size() == 2 && last.ranks[1].state == model::RankState::killed;
  }));
  EXPECT_EQ(daemon_.last().ranks[0].state, model::RankState::running);
  daemon_.order_stop();
  ASSERT_EQ(finish(), 0);
  EXPECT_TRUE(daemon_.last().ranks[0].signalled_by_agent);
  EXPECT_FALSE(daemon_.last().ranks[1].signalled_by_agent);
}

TEST_F(AgentTest, OthersThatGoOnWithoutAKilledRankComeToTheirEnd) {
  launch_.devices = {0, 1};
  launch_.on_failure = model::OnFailure::shrink;
  shell(
      "echo on $LOCKSTEP_ON_FAILURE; if [ $RANK = 1 ]; then kill -KILL $$; fi; "
      "while [ ! -e go ]; do sleep 0.05; done");
  start();
  const auto killed = [&] {
    const auto last = daemon_.last();
    return last.ranks.size() == 2 && last.ranks[1].state == model::RankState::killed;
  };
  ASSERT_TRUE(eventually(killed));
  // The others learn at the rendezvous that it was killed, even if it had not joined them.
  const auto place = comm::RendezvousClient::connect(
      "127.0.0.1", static_cast<std::uint16_t>(daemon_.last().rendezvous_port),
      net::Secret::from_hex(launch_.secret).value(), Deadline::after(seconds(10)));
  ASSERT_TRUE(place) << place.error().message;
  EXPECT_EQ((*place)->get("crew/1/1", Deadline::after(seconds(10))).value(), "-");
  // Longer than an agent waits for a command before it ends the others on its own.
  const auto since = *daemon_.last().ranks[1].ended;
  ASSERT_TRUE(eventually([&] { return SystemClock().now() - since > milliseconds(5500); }));
  ASSERT_TRUE(write_file(root_ / "go", ""));
  ASSERT_EQ(finish(), 0);
  const auto ranks = daemon_.last().ranks;
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[1].state, model::RankState::killed);
  EXPECT_EQ(ranks[0].state, model::RankState::exited);
  EXPECT_EQ(ranks[0].code, 0);
  EXPECT_TRUE(daemon_.has_line_with("on shrink"));
  EXPECT_THAT(daemon_.events(), ElementsAre(AllOf(HasSubstr("rank 1"), HasSubstr("signal 9"))));
}

TEST_F(AgentTest, ARankThatIsWaitedForIsStartedAgainThreeTimesAtMost) {
  launch_.devices = {0, 1};
  launch_.on_failure = model::OnFailure::wait;
  shell(
      "echo rank $RANK replaces $LOCKSTEP_REPLACES.; if [ $RANK = 0 ]; then exec sleep 600; fi; "
      "echo x >> tries; if [ $(wc -l < tries) -lt 6 ]; then kill -KILL $$; fi");
  start();
  ASSERT_TRUE(eventually([&] {
    const auto last = daemon_.last();
    return last.ranks.size() == 2 && last.ranks[1].state == model::RankState::killed;
  }));
  EXPECT_EQ(read_file(root_ / "tries").value(), "x\nx\nx\nx\n");
  EXPECT_EQ(daemon_.last().ranks[0].state, model::RankState::running);
  daemon_.order_stop();
  ASSERT_EQ(finish(), 0);
  const auto said = daemon_.lines(1);
  for (const char* words : {"rank 1 replaces .", "rank 1 replaces 1.",
                            "started again (restart 3 of at most 3 on its host)"})
    EXPECT_NE(said.find(words), std::string::npos) << said;
  const auto events = daemon_.events();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_THAT(events[0], AllOf(HasSubstr("rank 1"), HasSubstr("signal 9"),
                               HasSubstr("restart 1 of at most 3")));
  EXPECT_THAT(events[3], AllOf(HasSubstr("rank 1"), HasSubstr("signal 9")));
}

TEST_F(AgentTest, WhatARankReportsBecomesItems) {
  shell("echo socket $LOCKSTEP_REPORT; while [ ! -e go ]; do sleep 0.01; done");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.has_line_with("socket"); }));
  std::string words = daemon_.lines(0);
  const std::string socket_path = words.substr(7, words.size() - 8);
  report(0,
         "{\"kind\":\"metrics\",\"step\":1,\"values\":{\"loss\":\"NaN\"}}\n"
         "broken\n"
         "{\"kind\":\"event\",\"step\":7,\"text\":\"rank 3 died\"}\n"
         "{\"kind\":\"checkpoint\",\"step\":100,\"path\":\"/c/step-100\"}");
  ASSERT_TRUE(write_file(root_ / "go", ""));
  ASSERT_EQ(finish(), 0);
  auto items = daemon_.items();
  auto of_kind = [&](spool::TelemetryKind kind) {
    return *std::ranges::find(items, kind, &spool::TelemetryItem::kind);
  };
  EXPECT_TRUE(std::isnan(of_kind(spool::TelemetryKind::metrics).values.at("loss")));
  EXPECT_EQ(of_kind(spool::TelemetryKind::checkpoint).text, "/c/step-100");
  EXPECT_EQ(of_kind(spool::TelemetryKind::event).text, "rank 3 died");
  EXPECT_EQ(of_kind(spool::TelemetryKind::event).step, 7);
  EXPECT_NE(agent_log().find("rank 0 reported a line that cannot be read"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path(socket_path).parent_path()));
}

TEST_F(AgentTest, ItsLogIsKeptToItsSizeAndOneOlderFile) {
  const path log = root_ / "node/agent.log";
  ASSERT_TRUE(make_folders(log.parent_path()));
  ASSERT_TRUE(write_file(log, std::string(2 << 20, 'x')));
  shell("exit 0");
  start();
  ASSERT_EQ(finish(), 0);
  EXPECT_LT(std::filesystem::file_size(log), 1u << 20);
  EXPECT_NE(agent_log().find("leaving"), std::string::npos);
  EXPECT_GT(std::filesystem::file_size(log.string() + ".1"), 2u << 20);
}

TEST_F(AgentTest, ASecondAgentOfTheNodeLeavesQuietly) {
  shell("echo up; exec sleep 600");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.has_line_with("up"); }));
  PairLink nobody(-1);
  EXPECT_EQ(*run_agent(launch_, nobody), 0);
  daemon_.order_stop();
  EXPECT_EQ(finish(), 0);
}

TEST_F(AgentTest, AnEndedNodeWaitsForTheDaemonsLeave) {
  shell("exit 0");
  daemon_.withhold_leave();
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.last().state == model::NodeState::stopping; }));
  EXPECT_EQ(::waitpid(agent_, nullptr, WNOHANG), 0);
  ::kill(agent_, SIGKILL);
  finish();
}

}  // namespace
}  // namespace lockstep::agent
