// The agent of an external job, with ranks and a daemon that the test plays.
#include "platform/agent/external/external_agent.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"
#include "base/mutex.h"
#include "base/temporary_folder_for_test.h"
#include "text/json.h"

namespace lockstep::agent {
namespace {

using model::CommandKind;
using model::RankState;
using ::testing::HasSubstr;

constexpr Duration kBound = std::chrono::seconds(30);

bool comes_true(const std::function<bool()>& holds) {
  for (auto end = Deadline::after(kBound); !end.passed(); ::poll(nullptr, 0, 5))
    if (holds()) return true;
  return holds();
}

class PlayedDaemon : public DaemonLink {
 public:
  Result<net::UpgradedConnection> open_stream(const std::string&) override {
    return Error{Code::unavailable, "no streams here"};
  }
  Result<api::HeartbeatAnswer> heartbeat(const api::Heartbeat& heartbeat, Deadline) override {
    const Lock lock(mutex_);
    ++calls_;
    if (error_) return *error_;
    last_ = heartbeat;
    api::HeartbeatAnswer answer;
    answer.command = command_;
    for (const auto& item : heartbeat.items) {
      const bool is_reading = item.kind == spool::TelemetryKind::telemetry;
      (is_reading ? readings_ : items_).push_back(item);
      acknowledged_ = item.sequence;
    }
    answer.acknowledged = acknowledged_;
    return answer;
  }
  void order(CommandKind command) {
    const Lock lock(mutex_);
    command_ = command;
  }
  void fail(std::optional<Error> error) {
    const Lock lock(mutex_);
    error_ = std::move(error);
  }
  AttachStatus status() const {
    const Lock lock(mutex_);
    return {.run = last_.ranks.empty() ? "" : "demo/1", .error = error_};
  }
  std::vector<model::Rank> ranks() const {
    const Lock lock(mutex_);
    return last_.ranks;
  }
  std::size_t items() const {
    const Lock lock(mutex_);
    return items_.size();
  }
  // The last one that came; nullopt: none came.
  std::optional<double> reading(const std::string& metric) const {
    const Lock lock(mutex_);
    for (auto item = readings_.rbegin(); item != readings_.rend(); ++item)
      if (const auto value = item->values.find(metric); value != item->values.end())
        return value->second;
    return std::nullopt;
  }
  bool was_called() const {
    const Lock lock(mutex_);
    return calls_ > 0;
  }

 private:
  mutable Mutex mutex_;  // guards what follows
  int calls_ LS_GUARDED_BY(mutex_) = 0;
  CommandKind command_ LS_GUARDED_BY(mutex_) = CommandKind::none;
  std::optional<Error> error_ LS_GUARDED_BY(mutex_);
  api::Heartbeat last_ LS_GUARDED_BY(mutex_);
  std::vector<spool::TelemetryItem> items_ LS_GUARDED_BY(mutex_);  // but readings
  std::vector<spool::TelemetryItem> readings_ LS_GUARDED_BY(mutex_);
  std::int64_t acknowledged_ LS_GUARDED_BY(mutex_) = 0;
};

Fd connected(const std::string& path) {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(path, address.sun_path);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return socket;
}

// The connections of a rank's process.
class PlayedRank {
 public:
  PlayedRank(const JobFolder& folder, int rank) : presence_(connected(folder.presence_socket())) {
    send({{"rank", rank}, {"local_rank", rank}});
    reports_ = connected(next()["report"].get<std::string>());
  }
  void send(const Json& line) { write(presence_, dump_json(line) + "\n"); }
  void log(int step) {
    write(reports_, format(R"({{"kind":"metrics","step":{},"values":{{"loss":1}}}})", step) + "\n");
  }
  Json next() {
    pollfd polled{presence_.get(), POLLIN, 0};
    std::string line;
    for (char byte = 0;
         ::poll(&polled, 1, 30'000) == 1 && ::read(presence_.get(), &byte, 1) == 1;) {
      if (byte == '\n') return parse_json(line).value();
      line += byte;
    }
    ADD_FAILURE() << "no line of the agent came";
    return {};
  }
  void end(std::optional<char> code) {
    if (code) write(presence_, std::string(1, *code));
    presence_.reset();
    reports_.reset();
  }

 private:
  static void write(const Fd& socket, const std::string& bytes) {
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  Fd presence_;
  Fd reports_;
};

class ExternalAgentTest : public ::testing::Test {
 protected:
  ExternalAgentTest() {
    ::setenv("XDG_RUNTIME_DIR", runtime_.path().c_str(), 1);
    folder_ = JobFolder::open("job").value();
    lock_ = folder_->try_become_agent().value().value();
    agent_ = ExternalAgent::open(*folder_, this_start(), "http://head:7070").value();
  }
  ~ExternalAgentTest() override {
    daemon_.fail(std::nullopt);
    daemon_.order(CommandKind::leave);
    if (thread_.joinable()) thread_.join();
    ::unsetenv("XDG_RUNTIME_DIR");
  }
  void run(ExternalAgentTimes times = {}) {
    thread_ = std::thread([this, times] {
      EXPECT_TRUE(agent_->run(
          daemon_, [this] { return daemon_.status(); },
          []() -> Result<MediaSender::Destination> {
            return Error{Code::unavailable, "this daemon takes none"};
          },
          times));
    });
  }
  const JobFolder& folder() const { return *folder_; }
  bool has_ended(int rank, RankState state, int code) const {
    for (const model::Rank& each : daemon_.ranks())
      if (each.rank == rank) return each.state == state && each.code == code;
    return false;
  }

  const TemporaryFolder runtime_;
  PlayedDaemon daemon_;
  std::optional<JobFolder> folder_;
  Fd lock_;
  std::unique_ptr<ExternalAgent> agent_;
  std::thread thread_;
};

TEST_F(ExternalAgentTest, ReportsAndTheEndOfARankReachTheDaemon) {
  run();
  PlayedRank rank(folder(), 3);
  rank.log(1);
  rank.log(2);
  rank.send({{"leaving", ""}});
  EXPECT_EQ(rank.next()["delivered"], true);
  EXPECT_EQ(daemon_.items(), 2u);
  EXPECT_EQ(daemon_.ranks().at(0).state, RankState::running);
  rank.end('\x07');
  EXPECT_TRUE(comes_true([&] { return has_ended(3, RankState::exited, 7); }));
  EXPECT_EQ(daemon_.ranks().at(0).step, 2);
}

TEST_F(ExternalAgentTest, ARankThatIsGoneWithoutAWordWasKilled) {
  run();
  PlayedRank rank(folder(), 0);
  rank.end(std::nullopt);
  EXPECT_TRUE(comes_true([&] { return has_ended(0, RankState::killed, 0); }));
}

TEST_F(ExternalAgentTest, ARankThatHasEndedBeforeTheAgentReadsIsKnown) {
  const Fd presence = connected(folder().presence_socket());
  const std::string words = "{\"rank\":2}\n{\"leaving\":\"\"}\n\x05";
  ASSERT_TRUE(write_all(presence.get(), words));
  ::shutdown(presence.get(), SHUT_WR);
  run();
  EXPECT_TRUE(comes_true([&] { return has_ended(2, RankState::exited, 5); }));
}

TEST_F(ExternalAgentTest, AnEndOfLineIsACodeToo) {
  run();
  PlayedRank rank(folder(), 0);
  rank.end('\n');
  EXPECT_TRUE(comes_true([&] { return has_ended(0, RankState::exited, 10); }));
}

TEST_F(ExternalAgentTest, RankZeroIsToldItsRun) {
  run();
  PlayedRank other(folder(), 1);
  PlayedRank rank(folder(), 0);
  EXPECT_EQ(rank.next()["note"], "this run is demo/1 on http://head:7070");
}

TEST_F(ExternalAgentTest, ADaemonThatRefusesIsToldOnceAndARankThatLeavesDoesNotWait) {
  daemon_.fail(Error{Code::denied, "the token is wrong"});
  run();
  PlayedRank rank(folder(), 0);
  rank.log(1);
  EXPECT_THAT(rank.next()["note"].get<std::string>(), HasSubstr("the token is wrong; training"));
  rank.send({{"leaving", ""}});
  EXPECT_EQ(rank.next()["delivered"], true);
  EXPECT_EQ(daemon_.items(), 0u);
}

TEST_F(ExternalAgentTest, ReportsWaitForADaemonThatIsAway) {
  daemon_.fail(Error{Code::unavailable, "no connection"});
  run();
  PlayedRank rank(folder(), 0);
  rank.log(1);
  rank.send({{"leaving", "ValueError: bad"}});
  EXPECT_THAT(rank.next()["note"].get<std::string>(), HasSubstr("no connection; training goes on"));
  EXPECT_EQ(rank.next()["delivered"], true);
  rank.end(std::nullopt);
  daemon_.fail(std::nullopt);
  EXPECT_TRUE(comes_true([&] { return has_ended(0, RankState::exited, 1); }));
  EXPECT_TRUE(comes_true([&] { return daemon_.items() == 1; }));
}

TEST_F(ExternalAgentTest, ItLeavesWhenTheDaemonHasEverythingAndRemovesItsFolder) {
  run();
  PlayedRank rank(folder(), 0);
  rank.log(1);
  rank.end('\0');
  EXPECT_TRUE(comes_true([&] { return has_ended(0, RankState::exited, 0); }));
  daemon_.order(CommandKind::leave);
  thread_.join();
  EXPECT_EQ(daemon_.items(), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder().path()));
}

TEST_F(ExternalAgentTest, ReadingsOfTheHostReachTheDaemonWhileARankRuns) {
  run({.telemetry_interval = std::chrono::milliseconds(20)});
  PlayedRank rank(folder(), 3);
  EXPECT_TRUE(comes_true([&] { return daemon_.reading("cpu/utilization_percent").has_value(); }));
  EXPECT_GT(daemon_.reading("memory/total_bytes"), 0);
  rank.send({{"leaving", ""}});
  EXPECT_EQ(rank.next()["delivered"], true) << "it does not wait for readings";
}

TEST_F(ExternalAgentTest, WithoutARankItEndsAndCallsNoDaemon) {
  run({.first_rank = std::chrono::milliseconds(50)});
  thread_.join();
  EXPECT_FALSE(daemon_.was_called());
}

TEST_F(ExternalAgentTest, OneAgentHoldsTheFolderOfAJob) {
  EXPECT_FALSE(folder().try_become_agent().value());
  EXPECT_TRUE(folder().has_agent());
  EXPECT_FALSE(JobFolder::open("other").value().has_agent());
}

TEST(ZombieTest, AProcessThatWasNotReapedTellsItsSignal) {
  const pid_t child = ::fork();
  if (child == 0) ::raise(SIGKILL);
  EXPECT_TRUE(comes_true([&] { return wait_status_of_zombie(child) == SIGKILL; }));
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(wait_status_of_zombie(child));
}

}  // namespace
}  // namespace lockstep::agent
