// For tests of whole agents: real processes with shells as ranks, and a daemon in the test that
// uses a socket pair instead of HTTP.
#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/mutex.h"
#include "base/os/fd.h"
#include "base/os/files.h"
#include "base/os/processes.h"
#include "base/temporary_folder_for_test.h"
#include "platform/agent/agent.h"
#include "platform/core/model/command.h"
#include "text/convert.h"

namespace lockstep::agent {

inline constexpr Duration kPatience = std::chrono::seconds(30);

inline bool eventually(const std::function<bool()>& holds) {
  for (auto deadline = Deadline::after(kPatience); !deadline.passed(); ::poll(nullptr, 0, 5))
    if (holds()) return true;
  return holds();
}

// --- The wire between agent and test: a line of JSON each way ---

// Requests and answers alternate, so nothing follows a line.
inline Result<std::string> read_line(int fd) {
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
  Result<net::UpgradedConnection> open_stream(const std::string&) override {
    return Error{Code::unavailable, "no streams here"};
  }
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

// --- A daemon that behaves as the controller does with this one node ---

// orphaning: its store does not know the node.
enum class DaemonBehavior { up, away, refusing, answering_invalid, orphaning };

class FakeDaemon {
 public:
  void serve(Fd socket) {
    socket_ = std::move(socket);
    thread_ = std::thread([this] { answer_loop(); });
  }
  ~FakeDaemon() {
    ::shutdown(socket_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }

  void set(DaemonBehavior mood) {
    Lock lock(mutex_);
    mood_ = mood;
  }
  void order_stop() {
    Lock lock(mutex_);
    stop_ = true;
  }
  void withhold_leave() {  // never sends `leave`
    Lock lock(mutex_);
    withholds_leave_ = true;
  }
  void set_all_nodes_running(bool whole) {  // the ranks of all nodes run
    Lock lock(mutex_);
    whole_ = whole;
  }
  // Requests flight records in the answers until they have come.
  void want_flight() {
    Lock lock(mutex_);
    flight_.reset();
    flight_wanted_ = true;
  }
  void want_flight_at_end() {  // together with `leave`
    Lock lock(mutex_);
    flight_at_end_ = true;
  }
  std::optional<api::FlightDelivery> flight() {
    Lock lock(mutex_);
    return flight_;
  }
  void set_grace(double grace_seconds) {
    Lock lock(mutex_);
    grace_ = grace_seconds;
  }

  api::Heartbeat last() {
    Lock lock(mutex_);
    return last_;
  }
  std::vector<spool::TelemetryItem> items() {
    Lock lock(mutex_);
    return items_;
  }
  // The output lines of a rank, in order.
  std::string lines(int rank) {
    std::string all;
    for (const auto& item : items())
      if (item.kind == spool::TelemetryKind::log && item.rank == rank) all += item.text + "\n";
    return all;
  }
  std::vector<std::string> events() {
    std::vector<std::string> all;
    for (const auto& item : items())
      if (item.kind == spool::TelemetryKind::event) all.push_back(item.text);
    return all;
  }
  bool has_line_with(const std::string& words) { return lines(0).find(words) != std::string::npos; }
  // Heartbeats with such an item are invalid.
  void poison(const std::string& words) {
    Lock lock(mutex_);
    poison_ = words;
  }
  int orphan_calls() {
    Lock lock(mutex_);
    return orphan_calls_;
  }
  std::size_t orphan_items() {
    Lock lock(mutex_);
    return orphan_items_;
  }
  int refusals() {
    Lock lock(mutex_);
    return refusals_;
  }
  int calls() {  // that it answered
    Lock lock(mutex_);
    return calls_;
  }
  Time answered() {  // time of the last answer
    Lock lock(mutex_);
    return answered_;
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
  void answer_loop() {
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
    if (mood_ == DaemonBehavior::refusing) {
      ++refusals_;
      return "refused";
    }
    if (mood_ == DaemonBehavior::answering_invalid || is_poisoned(*heartbeat)) {
      ++refusals_;
      return "invalid";
    }
    if (mood_ == DaemonBehavior::away) {
      ++calls_away_;
      return "away";
    }
    if (mood_ == DaemonBehavior::orphaning) return answer_to_orphan(*heartbeat);
    store_items(*heartbeat);
    answered_ = SystemClock().now();
    api::HeartbeatAnswer answer;
    answer.command = command();
    answer.acknowledged = static_cast<std::int64_t>(items_.size());
    answer.master_address = "127.0.0.1";
    answer.master_port = heartbeat->master_port;
    answer.rendezvous = format("127.0.0.1:{}", heartbeat->rendezvous_port);
    answer.grace_seconds = grace_;
    if (heartbeat->flight) flight_wanted_ = false;
    if (heartbeat->flight) flight_ = heartbeat->flight;
    const bool at_end = flight_at_end_ && answer.command == model::CommandKind::leave && !flight_;
    answer.flight_wanted = flight_wanted_ || at_end;
    return dump_json(to_json(answer));
  }

  std::string answer_to_orphan(const api::Heartbeat& heartbeat) LS_REQUIRES(mutex_) {
    last_ = heartbeat;
    ++orphan_calls_;
    orphan_items_ += heartbeat.items.size();
    return dump_json(to_json(
        api::HeartbeatAnswer{.command = stop_ ? model::CommandKind::stop : model::CommandKind::none,
                             .acknowledged = 0,
                             .master_address = {},
                             .master_port = 0,
                             .rendezvous = {},
                             .grace_seconds = grace_,
                             .flight_wanted = false,
                             .orphaned = true}));
  }

  bool is_poisoned(const api::Heartbeat& heartbeat) const LS_REQUIRES(mutex_) {
    for (const auto& item : heartbeat.items)
      if (!poison_.empty() && item.text.find(poison_) != std::string::npos) return true;
    return false;
  }

  void store_items(const api::Heartbeat& heartbeat) LS_REQUIRES(mutex_) {
    last_ = heartbeat;
    ++calls_;
    for (const auto& item : heartbeat.items) {
      const auto next = static_cast<std::int64_t>(items_.size()) + 1;
      if (item.sequence > next) trouble_ = format("item {} came before {}", item.sequence, next);
      if (item.sequence == next) items_.push_back(item);
    }
  }

  model::CommandKind command() const LS_REQUIRES(mutex_) {
    const bool over = std::ranges::none_of(last_.ranks, [](const model::Rank& rank) {
      return rank.state == model::RankState::running;
    });
    if (over && (!last_.ranks.empty() || last_.state == model::NodeState::stopping))
      return withholds_leave_ ? model::CommandKind::stop : model::CommandKind::leave;
    if (stop_) return model::CommandKind::stop;
    const bool starts = last_.state == model::NodeState::ready ||
                        (last_.state == model::NodeState::running && !whole_);
    return starts ? model::CommandKind::start : model::CommandKind::none;
  }

  Fd socket_;
  std::thread thread_;
  Mutex mutex_;  // guards what follows
  DaemonBehavior mood_ LS_GUARDED_BY(mutex_) = DaemonBehavior::up;
  bool stop_ LS_GUARDED_BY(mutex_) = false;
  bool withholds_leave_ LS_GUARDED_BY(mutex_) = false;
  bool whole_ LS_GUARDED_BY(mutex_) = true;
  double grace_ LS_GUARDED_BY(mutex_) = 5;
  bool flight_wanted_ LS_GUARDED_BY(mutex_) = false;
  bool flight_at_end_ LS_GUARDED_BY(mutex_) = false;
  std::optional<api::FlightDelivery> flight_ LS_GUARDED_BY(mutex_);
  int calls_ LS_GUARDED_BY(mutex_) = 0;
  Time answered_ LS_GUARDED_BY(mutex_) = {};
  int calls_away_ LS_GUARDED_BY(mutex_) = 0;
  int refusals_ LS_GUARDED_BY(mutex_) = 0;
  int orphan_calls_ LS_GUARDED_BY(mutex_) = 0;
  std::size_t orphan_items_ LS_GUARDED_BY(mutex_) = 0;
  std::string poison_ LS_GUARDED_BY(mutex_);
  api::Heartbeat last_ LS_GUARDED_BY(mutex_);
  std::vector<spool::TelemetryItem> items_ LS_GUARDED_BY(mutex_);
  std::string trouble_ LS_GUARDED_BY(mutex_);
};

class AgentTest : public testing::Test {
 protected:
  AgentTest() {
    token_ = format("{}:demo/1.2/0", root_.path().filename().string());
    launch_.node = "demo/1.2/0";
    launch_.host = "host-a";
    launch_.address = "127.0.0.1";
    launch_.devices = {0};
    launch_.node_folder = root_ / "node";
    launch_.daemon_file = root_ / "daemon.json";
    launch_.checkpoint_folder = root_ / "checkpoints";
    launch_.working_folder = root_.path();
    launch_.token = "the-token";
    launch_.secret = std::string(64, 'a');
    launch_.time_left = std::chrono::hours(1);
    launch_.start_limit = std::chrono::minutes(5);
  }
  ~AgentTest() override {
    EXPECT_EQ(daemon_.trouble(), "");
    if (agent_ > 0) {
      ::kill(agent_, SIGKILL);
      ::waitpid(agent_, nullptr, 0);
    }
    for (pid_t pid : marked()) ::kill(pid, SIGKILL);
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
      ::setenv("PATH", path_.c_str(), 1);
      // Removed together with the folder when the agent is killed.
      ::setenv("XDG_RUNTIME_DIR", root_.path().c_str(), 1);
      PairLink link(theirs.get());
      auto code = run_agent(launch_, link);
      ::_exit(code ? *code : 99);
    }
    daemon.serve(std::move(ours));
  }

  // The agent's exit code; -1 if it does not end.
  int finish() {
    int status = 0;
    if (!eventually([&] { return ::waitpid(agent_, &status, WNOHANG) == agent_; })) return -1;
    agent_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
  }

  // Processes of the node, except the agent (its initial environment has no token).
  std::vector<pid_t> marked() const {
    std::vector<pid_t> found;
    for (const Process& process : processes_of_user())
      if (environment_variable_of(process.pid, "LOCKSTEP_NODE_TOKEN") == token_)
        found.push_back(process.pid);
    return found;
  }

  model::Rank rank(std::size_t local_rank) {
    const auto ranks = daemon_.last().ranks;
    return local_rank < ranks.size() ? ranks[local_rank] : model::Rank{};
  }

  // Sends a report as the rank would, once the rank has printed its socket ("socket PATH").
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

  // True once its command is this program and sleeps: a shell may take a while to get there.
  bool is_asleep(std::size_t local_rank, std::string_view program) {
    const auto process = find_process(static_cast<pid_t>(rank(local_rank).pid));
    if (!process || process->state != 'S') return false;
    return read_file(format("/proc/{}/comm", process->pid)).value_or("") == format("{}\n", program);
  }

  bool has_stopped_process() const {
    const auto ours = marked();
    return std::ranges::any_of(processes_of_user(), [&](const Process& process) {
      return process.state == 'T' && std::ranges::find(ours, process.pid) != ours.end();
    });
  }

  std::string agent_log() const { return read_file(root_ / "node/agent.log").value_or(""); }

  const TemporaryFolder root_;
  std::string token_;
  std::string path_ = "/usr/bin:/bin";  // of the agent
  host::LaunchSpec launch_;
  FakeDaemon daemon_;
  pid_t agent_ = 0;
};

}  // namespace lockstep::agent
