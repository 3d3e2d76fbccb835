// Whole agents: real processes with shells as ranks, and a daemon in the test that speaks with them
// over a socket pair instead of HTTP.
#include "platform/agent/agent.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/processes.h"
#include "platform/core/model/command.h"
#include "text/convert.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::filesystem::path;

constexpr Duration kPatience = seconds(10);

bool eventually(const std::function<bool()>& holds) {
  for (auto deadline = Deadline::after(kPatience); !deadline.passed(); ::poll(nullptr, 0, 5))
    if (holds()) return true;
  return holds();
}

// --- The wire between agent and test: a line of JSON each way ---

// Strictly by turns, so nothing follows a line.
Result<std::string> read_line(int fd) {
  std::string line;
  char buffer[1 << 16];
  while (!line.ends_with('\n')) {
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0) return Error{Code::unavailable, "the test is over"};
    line.append(buffer, static_cast<std::size_t>(n));
  }
  line.pop_back();
  return line;
}

class PairLink : public DaemonLink {
 public:
  explicit PairLink(int fd) : fd_(fd) {}
  Result<api::HeartbeatAnswer> heartbeat(const api::Heartbeat& heartbeat, Deadline) override {
    TRY(write_all(fd_, dump_json(to_json(heartbeat)) + "\n"));
    std::string line = TRY(read_line(fd_));
    if (line == "away") return Error{Code::unavailable, "nobody there"};
    if (line == "refused") return Error{Code::denied, "not mine"};
    if (line == "invalid") return Error{Code::invalid, "I do not like it"};
    return from_json<api::HeartbeatAnswer>(TRY(parse_json(line)));
  }

 private:
  int fd_;
};

// --- A daemon that behaves as the controller would with this one node ---

enum class Mood { up, away, refusing, finding_all_invalid };

class FakeDaemon {
 public:
  void serve(Fd socket) {
    socket_ = std::move(socket);
    thread_ = std::thread([this] { talk(); });
  }
  ~FakeDaemon() {
    ::shutdown(socket_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }

  void set(Mood mood) {
    Lock lock(mutex_);
    mood_ = mood;
  }
  void say_stop() {
    Lock lock(mutex_);
    stop_ = true;
  }
  void keep() {  // does not let the agent go
    Lock lock(mutex_);
    keep_ = true;
  }
  void set_grace(double grace_seconds) {
    Lock lock(mutex_);
    grace_ = grace_seconds;
  }

  api::Heartbeat last() {
    Lock lock(mutex_);
    return last_;
  }
  std::vector<api::SpoolItem> items() {
    Lock lock(mutex_);
    return items_;
  }
  // The lines of a rank, in order.
  std::string lines(int rank) {
    std::string all;
    for (const auto& item : items())
      if (item.kind == "log" && item.rank == rank) all += item.text + "\n";
    return all;
  }
  bool saw(const std::string& words) { return lines(0).find(words) != std::string::npos; }
  // Calls with such an item are invalid.
  void poison(const std::string& words) {
    Lock lock(mutex_);
    poison_ = words;
  }
  int refusals() {
    Lock lock(mutex_);
    return refusals_;
  }
  int calls_while_away() {
    Lock lock(mutex_);
    return calls_away_;
  }
  std::string trouble() {
    Lock lock(mutex_);
    return trouble_;
  }

 private:
  void talk() {
    while (true) {
      auto line = read_line(socket_.get());
      if (!line) return;
      if (!write_all(socket_.get(), answer(*line) + "\n")) return;
    }
  }

  std::string answer(const std::string& line) {
    auto heartbeat = from_json<api::Heartbeat>(parse_json(line).value());
    Lock lock(mutex_);
    if (!heartbeat) trouble_ = heartbeat.error().message;
    if (mood_ == Mood::refusing) return "refused";
    if (mood_ == Mood::finding_all_invalid || is_poisoned(*heartbeat)) {
      ++refusals_;
      return "invalid";
    }
    if (mood_ == Mood::away) {
      ++calls_away_;
      return "away";
    }
    take(*heartbeat);
    api::HeartbeatAnswer answer;
    answer.command = command();
    answer.acknowledged = static_cast<std::int64_t>(items_.size());
    answer.master_address = "127.0.0.1";
    answer.master_port = heartbeat->master_port;
    answer.rendezvous = format("127.0.0.1:{}", heartbeat->rendezvous_port);
    answer.grace_seconds = grace_;
    return dump_json(to_json(answer));
  }

  bool is_poisoned(const api::Heartbeat& heartbeat) const LS_REQUIRES(mutex_) {
    return !poison_.empty() && std::ranges::any_of(heartbeat.items, [&](const auto& item) {
      return item.text.find(poison_) != std::string::npos;
    });
  }

  void take(const api::Heartbeat& heartbeat) LS_REQUIRES(mutex_) {
    last_ = heartbeat;
    for (const auto& item : heartbeat.items) {
      const auto next = static_cast<std::int64_t>(items_.size()) + 1;
      if (item.sequence > next) trouble_ = format("item {} came before {}", item.sequence, next);
      if (item.sequence == next) items_.push_back(item);
    }
  }

  std::string command() const LS_REQUIRES(mutex_) {
    const bool over =
        std::ranges::none_of(last_.ranks, [](const auto& rank) { return rank.state == "running"; });
    if (over && (!last_.ranks.empty() || last_.state == "stopping"))
      return keep_ ? "stop" : "leave";
    if (stop_) return "stop";
    return last_.state == "ready" || last_.state == "running" ? "start" : "none";
  }

  Fd socket_;
  std::thread thread_;
  Mutex mutex_;  // guards what follows
  Mood mood_ LS_GUARDED_BY(mutex_) = Mood::up;
  bool stop_ LS_GUARDED_BY(mutex_) = false;
  bool keep_ LS_GUARDED_BY(mutex_) = false;
  double grace_ LS_GUARDED_BY(mutex_) = 5;
  int calls_away_ LS_GUARDED_BY(mutex_) = 0;
  int refusals_ LS_GUARDED_BY(mutex_) = 0;
  std::string poison_ LS_GUARDED_BY(mutex_);
  api::Heartbeat last_ LS_GUARDED_BY(mutex_);
  std::vector<api::SpoolItem> items_ LS_GUARDED_BY(mutex_);
  std::string trouble_ LS_GUARDED_BY(mutex_);
};

class AgentTest : public testing::Test {
 protected:
  AgentTest() {
    std::string name = (std::filesystem::temp_directory_path() / "agent-test-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    token_ = format("{}:demo/1.2/0", root_.filename().string());
    launch_.node = "demo/1.2/0";
    launch_.host = "host-a";
    launch_.address = "127.0.0.1";
    launch_.devices = {0};
    launch_.node_folder = root_ / "node";
    launch_.daemon_file = root_ / "daemon.json";
    launch_.checkpoint_folder = root_ / "checkpoints";
    launch_.working_folder = root_;
    launch_.token = "the-token";
    launch_.secret = std::string(64, 'a');
    launch_.time_left = std::chrono::hours(1);
  }
  ~AgentTest() override {
    EXPECT_EQ(daemon_.trouble(), "");
    if (agent_ > 0) {
      ::kill(agent_, SIGKILL);
      ::waitpid(agent_, nullptr, 0);
    }
    for (pid_t pid : marked()) ::kill(pid, SIGKILL);
    std::filesystem::remove_all(root_);
  }

  void shell(const std::string& script) { launch_.command = {"/bin/sh", "-c", script}; }

  void start() { start(daemon_); }
  void start(FakeDaemon& daemon) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    Fd ours(pair[0]), theirs(pair[1]);
    agent_ = ::fork();
    if (agent_ == 0) {
      ours.reset();
      ::setenv("LOCKSTEP_NODE_TOKEN", token_.c_str(), 1);
      ::setenv("PATH", "/usr/bin:/bin", 1);
      ::setenv("XDG_RUNTIME_DIR", root_.c_str(), 1);  // removed with it when the agent is killed
      PairLink link(theirs.get());
      auto code = run_agent(launch_, link);
      ::_exit(code ? *code : 99);
    }
    daemon.serve(std::move(ours));
  }

  // The agent's exit code; -1 when it does not end.
  int finish() {
    int status = 0;
    if (!eventually([&] { return ::waitpid(agent_, &status, WNOHANG) == agent_; })) return -1;
    agent_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
  }

  // Processes of the node, without the agent (whose own mark is not in its first environment).
  std::vector<pid_t> marked() const {
    std::vector<pid_t> found;
    for (const Process& process : processes_of_user())
      if (environment_of(process.pid, "LOCKSTEP_NODE_TOKEN") == token_)
        found.push_back(process.pid);
    return found;
  }

  api::RankReport rank(std::size_t local_rank) {
    const auto ranks = daemon_.last().ranks;
    return local_rank < ranks.size() ? ranks[local_rank] : api::RankReport{};
  }

  // As the rank would, once it has said where ("socket PATH").
  void report(int rank, const std::string& words) {
    ASSERT_TRUE(eventually([&] { return daemon_.lines(rank).starts_with("socket "); }));
    const std::string said = daemon_.lines(rank);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(said.substr(7, said.find('\n') - 7), address.sun_path);
    const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_TRUE(write_all(socket.get(), words + "\n"));
  }

  bool has_stopped_process() const {
    const auto ours = marked();
    return std::ranges::any_of(processes_of_user(), [&](const Process& process) {
      return process.state == 'T' && std::ranges::find(ours, process.pid) != ours.end();
    });
  }

  std::string agent_log() const { return read_file(root_ / "node/agent.log").value_or(""); }

  path root_;
  std::string token_;
  Launch launch_;
  FakeDaemon daemon_;
  pid_t agent_ = 0;
};

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

TEST_F(AgentTest, ARankFindsTheEnvironmentThatIsDocumented) {
  launch_.command = {"env"};
  launch_.devices = {4, 6};
  launch_.gpus = true;
  launch_.first_rank = 2;
  launch_.world_size = 4;
  launch_.nodes = 2;
  launch_.env = {{"COLOR", "blue"}, {"RANK", "77"}, {"LANG", "C.UTF-8"}, {"TERM", "xterm"}};
  start();
  ASSERT_EQ(finish(), 0) << agent_log();
  auto found = variables(daemon_.lines(3));
  auto last = daemon_.last();
  const std::string socket = found["LOCKSTEP_REPORT"];
  EXPECT_TRUE(socket.ends_with("/rank-3"));
  for (auto name : {"HOME", "USER", "SHELL", "TZ", "VIRTUAL_ENV"}) found.erase(name);
  std::erase_if(found, [](const auto& entry) { return entry.first.starts_with("LC_"); });
  EXPECT_EQ(found, (std::map<std::string, std::string>{
                       {"PATH", "/usr/bin:/bin"},
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
                       {"CUDA_VISIBLE_DEVICES", "4,6"},
                       {"OMP_NUM_THREADS", "1"},
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
                       {"LOCKSTEP_NODE_TOKEN", token_}}));
}

TEST_F(AgentTest, TheSecretIsThereForTheRanksAndNowhereElse) {
  shell("cat $LOCKSTEP_SECRET_FILE; ls -l $LOCKSTEP_SECRET_FILE; pwd");
  start();
  ASSERT_EQ(finish(), 0);
  EXPECT_TRUE(daemon_.saw(launch_.secret + "-rw-------"));
  EXPECT_TRUE(daemon_.saw("\n" + root_.string() + "\n"));
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
  EXPECT_EQ(last.ranks[0].state, "exited");
  EXPECT_EQ(last.ranks[0].code, 0);
  EXPECT_EQ(last.ranks[1].code, 3);
  EXPECT_EQ(last.ranks[2].state, "killed");
  EXPECT_EQ(last.ranks[2].code, SIGSEGV);
  for (const auto& rank : last.ranks) {
    EXPECT_FALSE(rank.signalled_by_us);
    EXPECT_TRUE(rank.ended.has_value());
  }
}

TEST_F(AgentTest, ProgramsThatCannotBeStartedAreNamed) {
  struct Case {
    std::string program, folder, words;
  };
  path plain = root_ / "plain";
  ASSERT_TRUE(write_file(plain, "no program"));
  const Case cases[] = {{"no-such-program", root_, "no program 'no-such-program' in PATH"},
                        {plain, root_, "Permission denied"},
                        {"/bin/true", "/no/such/folder", "working folder /no/such/folder"}};
  for (const Case& c : cases) {
    launch_.command = {c.program};
    launch_.working_folder = c.folder;
    FakeDaemon daemon;
    start(daemon);
    EXPECT_EQ(finish(), 0);
    EXPECT_EQ(daemon.last().state, "stopping");
    EXPECT_NE(daemon.last().message.find(c.words), std::string::npos) << daemon.last().message;
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

TEST_F(AgentTest, ARankThatIgnoresTheSignalIsKilledAfterTheGrace) {
  shell("trap '' TERM; echo armed; while :; do sleep 0.05; done");
  daemon_.set_grace(0.2);
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.saw("armed"); }));
  daemon_.say_stop();
  ASSERT_EQ(finish(), 0);
  auto last = daemon_.last();
  EXPECT_EQ(last.state, "stopping");
  EXPECT_EQ(last.ranks[0].state, "killed");
  EXPECT_EQ(last.ranks[0].code, SIGKILL);
  EXPECT_TRUE(last.ranks[0].signalled_by_us);
  EXPECT_TRUE(marked().empty());
}

TEST_F(AgentTest, ARankMayEndInOrderWhenItIsStopped) {
  shell("trap 'echo saved; exit 7' TERM; echo armed; while :; do sleep 0.05; done");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.saw("armed"); }));
  daemon_.say_stop();
  ASSERT_EQ(finish(), 0);
  EXPECT_TRUE(daemon_.saw("saved"));
  EXPECT_EQ(daemon_.last().ranks[0].code, 7);
  EXPECT_TRUE(daemon_.last().ranks[0].signalled_by_us);
}

TEST_F(AgentTest, WhatARankLeavesBehindIsKilled) {
  shell(
      "setsid sleep 600 & (setsid setsid env -i /bin/sleep 600 &) ; setsid sh -c \"trap '' TERM; "
      "sleep 600\" & echo started; exit 0");
  start();
  ASSERT_EQ(finish(), 0);
  EXPECT_TRUE(daemon_.saw("started"));
  EXPECT_TRUE(marked().empty());
  EXPECT_EQ(daemon_.last().ranks[0].code, 0);
}

// What set itself apart, the engine finds by the token.
TEST_F(AgentTest, RanksDieWithTheirAgentAndWhatItLeavesCanBeFound) {
  launch_.devices = {0, 1};
  shell(
      "trap '' TERM HUP INT; if [ $RANK = 0 ]; then setsid sh -c \"trap '' TERM HUP; sleep 600\" & "
      "fi; echo up; while :; do sleep 0.05; done");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.saw("up") && rank(1).pid > 0; }));
  const auto ranks = daemon_.last().ranks;
  const int port = daemon_.last().rendezvous_port;
  ::kill(agent_, SIGKILL);
  EXPECT_EQ(finish(), -2);
  for (const auto& dead : ranks)
    EXPECT_TRUE(eventually([&] { return ::kill(static_cast<pid_t>(dead.pid), 0) != 0; }));
  EXPECT_FALSE(is_listening(port));
  ASSERT_FALSE(marked().empty());
  for (pid_t pid : marked()) ::kill(pid, SIGKILL);
  EXPECT_TRUE(eventually([&] { return marked().empty(); }));
}

TEST_F(AgentTest, WhatIsCollectedWhileTheDaemonIsAwayComesOnceAndInOrder) {
  shell("echo up; while [ ! -e go ]; do sleep 0.01; done; for i in $(seq 1 200); do echo $i; done");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.saw("up"); }));
  daemon_.set(Mood::away);
  ASSERT_TRUE(write_file(root_ / "go", ""));
  auto all_written = [&] {
    return read_file(root_ / "node/rank-0.log").value_or("").ends_with("\n200\n");
  };
  ASSERT_TRUE(eventually([&] { return all_written() && daemon_.calls_while_away() >= 3; }));
  daemon_.set(Mood::up);
  ASSERT_EQ(finish(), 0);
  std::string expected = "up\n";
  for (int i = 1; i <= 200; ++i) expected += format("{}\n", i);
  EXPECT_EQ(daemon_.lines(0), expected);
}

TEST_F(AgentTest, TheTimeOutIsKeptWhileTheDaemonIsAway) {
  launch_.time_left = milliseconds(500);
  launch_.devices = {0, 1};
  daemon_.set_grace(0.3);
  shell("if [ $RANK = 1 ]; then trap '' TERM; while :; do sleep 0.05; done; fi; exec sleep 600");
  start();
  ASSERT_TRUE(eventually([&] { return !marked().empty(); }));
  daemon_.set(Mood::away);
  ASSERT_TRUE(eventually([&] { return marked().empty(); }));
  daemon_.set(Mood::up);
  ASSERT_EQ(finish(), 0);
  const auto last = daemon_.last();
  EXPECT_EQ(last.message, "time-out");
  EXPECT_EQ(last.ranks[0].code, SIGTERM);
  EXPECT_EQ(last.ranks[1].code, SIGKILL);
  for (const auto& rank : last.ranks) EXPECT_TRUE(rank.signalled_by_us);
  EXPECT_GE(*last.ranks[1].ended - *last.ranks[0].ended, milliseconds(250));
}

// --- Hanging ranks ---

TEST_F(AgentTest, ARankThatFallsSilentIsToldWithItsStepAndWhatAllRanksDo) {
  launch_.devices = {0, 1};
  launch_.hang_after = milliseconds(300);
  shell("echo socket $LOCKSTEP_REPORT; if [ $RANK = 1 ]; then kill -STOP $$; fi; exec sleep 600");
  start();
  report(0, R"({"kind":"progress","step":7,"steps":9})");
  ASSERT_TRUE(eventually([&] { return rank(0).stalled_since.has_value(); }));
  EXPECT_EQ(rank(0).step, 7);
  EXPECT_EQ(rank(0).activity, "sleeping");
  EXPECT_EQ(rank(0).state, "running");
  EXPECT_FALSE(rank(1).stalled_since);  // it never reported
  EXPECT_EQ(rank(1).activity, "stopped");
  EXPECT_EQ(rank(1).step, -1);

  report(0, R"({"kind":"metrics","step":8,"values":{"loss":1}})");
  ASSERT_TRUE(eventually([&] { return !rank(0).stalled_since; }));
  EXPECT_EQ(rank(0).step, 8);
  ::kill(static_cast<pid_t>(rank(1).pid), SIGCONT);
  daemon_.say_stop();
  ASSERT_EQ(finish(), 0);
}

TEST_F(AgentTest, WhatRanksDoIsSeenWhenOneEndsBadlyAndBeforeAnySignal) {
  launch_.devices = {0, 1, 2};
  daemon_.set_grace(0.2);
  shell(
      "case $RANK in 0) while [ ! -e go ]; do sleep 0.01; done; exit 3;; "
      "1) sh -c 'kill -STOP $$'; exit 0;; 2) exec sleep 600;; esac");
  start();
  ASSERT_TRUE(eventually([&] { return has_stopped_process(); }));
  ASSERT_TRUE(write_file(root_ / "go", ""));
  ASSERT_TRUE(eventually([&] { return rank(0).state == "exited"; }));
  EXPECT_EQ(rank(1).activity, "stopped");  // of the shell's child
  EXPECT_EQ(rank(2).activity, "sleeping");
  daemon_.say_stop();
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(rank(1).state, "killed");
  EXPECT_TRUE(rank(1).signalled_by_us);
  EXPECT_EQ(rank(1).activity, "stopped");
}

TEST_F(AgentTest, AHungNodeEndsByItselfWhileTheDaemonIsAway) {
  launch_.hang_after = milliseconds(400);
  shell("echo socket $LOCKSTEP_REPORT; exec sleep 600");
  start();
  report(0, R"({"kind":"progress","step":7,"steps":9})");
  daemon_.set(Mood::away);
  ASSERT_TRUE(eventually([&] { return marked().empty(); }));
  daemon_.set(Mood::up);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.last().message,
            "rank 0 has made no progress since step 7, and the daemon does not answer");
  EXPECT_TRUE(rank(0).signalled_by_us);
  EXPECT_TRUE(rank(0).stalled_since);
}

// --- What the daemon does not take ---

TEST_F(AgentTest, ALineThatTheDaemonFindsInvalidHoldsUpNobodyElses) {
  daemon_.poison("poison");
  shell(
      "while [ ! -e go ]; do sleep 0.01; done; for i in 1 2 3 4 5; do echo $i; sleep 0.15; done; "
      "echo poison; sleep 0.15; for i in 6 7 8; do echo $i; sleep 0.15; done; touch done; "
      "exec sleep 600");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.last().state == "running"; }));
  daemon_.set(Mood::away);
  ASSERT_TRUE(write_file(root_ / "go", ""));
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(root_ / "done"); }));
  daemon_.set(Mood::up);
  ASSERT_TRUE(eventually([&] { return daemon_.saw("8"); }));
  EXPECT_EQ(daemon_.lines(0),
            "1\n2\n3\n4\n5\n[lockstep: the daemon refused the log that stood here (step 0): I do "
            "not like it]\n6\n7\n8\n");
  EXPECT_LE(daemon_.refusals(), 8);
  EXPECT_NE(agent_log().find("the daemon refuses item 6, which is left out"), std::string::npos);
  daemon_.say_stop();
  ASSERT_EQ(finish(), 0);
}

TEST_F(AgentTest, AStatusThatTheDaemonFindsInvalidNeitherSpinsNorStopsTheTimeOut) {
  launch_.time_left = milliseconds(1500);
  shell("exec sleep 600");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.last().state == "running"; }));
  daemon_.set(Mood::finding_all_invalid);
  ASSERT_TRUE(eventually([&] { return marked().empty(); }));
  EXPECT_GE(daemon_.refusals(), 3);
  EXPECT_LE(daemon_.refusals(), 12);
  daemon_.set(Mood::up);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.last().message, "time-out");
}

TEST_F(AgentTest, ANodeThatIsRefusedKillsItsRanksAndLeaves) {
  shell("trap '' TERM; echo up; while :; do sleep 0.05; done");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.saw("up"); }));
  daemon_.set(Mood::refusing);
  EXPECT_EQ(finish(), 0);
  EXPECT_TRUE(marked().empty());
}

TEST_F(AgentTest, ADeadRankIsToldAtOnceWhileOthersRun) {
  launch_.devices = {0, 1};
  shell("if [ $RANK = 1 ]; then kill -KILL $$; fi; exec sleep 600");
  start();
  ASSERT_TRUE(eventually([&] {
    auto last = daemon_.last();
    return last.ranks.size() == 2 && last.ranks[1].state == "killed";
  }));
  EXPECT_EQ(daemon_.last().ranks[0].state, "running");
  const auto noticed = SystemClock().now() - *daemon_.last().ranks[1].ended;
  EXPECT_LT(noticed, seconds(1));
  daemon_.say_stop();
  ASSERT_EQ(finish(), 0);
  EXPECT_TRUE(daemon_.last().ranks[0].signalled_by_us);
  EXPECT_FALSE(daemon_.last().ranks[1].signalled_by_us);
}

TEST_F(AgentTest, WhatARankReportsBecomesItems) {
  shell("echo socket $LOCKSTEP_REPORT; while [ ! -e go ]; do sleep 0.01; done");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.saw("socket"); }));
  std::string words = daemon_.lines(0);
  const std::string socket_path = words.substr(7, words.size() - 8);
  report(0,
         "{\"kind\":\"metrics\",\"step\":1,\"values\":{\"loss\":\"NaN\"}}\n"
         "broken\n"
         "{\"kind\":\"checkpoint\",\"step\":100,\"path\":\"/c/step-100\"}");
  ASSERT_TRUE(write_file(root_ / "go", ""));
  ASSERT_EQ(finish(), 0);
  auto items = daemon_.items();
  auto of_kind = [&](std::string_view kind) {
    return *std::ranges::find(items, kind, &api::SpoolItem::kind);
  };
  EXPECT_TRUE(std::isnan(of_kind("metrics").values.at("loss")));
  EXPECT_EQ(of_kind("checkpoint").text, "/c/step-100");
  EXPECT_NE(agent_log().find("rank 0 reported a line that cannot be read"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path(socket_path).parent_path()));
}

TEST_F(AgentTest, ASecondAgentOfTheNodeLeavesQuietly) {
  shell("echo up; exec sleep 600");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.saw("up"); }));
  PairLink nobody(-1);
  EXPECT_EQ(*run_agent(launch_, nobody), 0);
  daemon_.say_stop();
  EXPECT_EQ(finish(), 0);
}

TEST_F(AgentTest, AnEndedNodeWaitsForTheDaemonsLeave) {
  shell("exit 0");
  daemon_.keep();
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.last().state == "stopping"; }));
  EXPECT_EQ(::waitpid(agent_, nullptr, WNOHANG), 0);
  ::kill(agent_, SIGKILL);
  finish();
}

}  // namespace
}  // namespace lockstep
