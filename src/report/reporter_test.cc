#include "report/reporter.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/temporary_folder_for_test.h"
#include "text/json.h"

namespace lockstep::report {
namespace {

// Replaces the agent: a listening socket in a separate folder.
class Agent {
 public:
  Agent() {
    listener_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
  }

  const std::filesystem::path& path() const { return path_; }

  // All lines of the next connection, up to its end.
  std::vector<Json> lines() {
    pollfd waiting{listener_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 5000) != 1) return {};
    const Fd peer(::accept(listener_.get(), nullptr, nullptr));
    return read_lines(peer);
  }

  // The first `count` lines of the next connection.
  std::vector<Json> first_lines(std::size_t count) {
    pollfd waiting{listener_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 5000) != 1) return {};
    const Fd peer(::accept(listener_.get(), nullptr, nullptr));
    std::string received;
    char buffer[4096];
    for (ssize_t size; static_cast<std::size_t>(std::ranges::count(received, '\n')) < count &&
                       (size = ::read(peer.get(), buffer, sizeof buffer)) > 0;)
      received.append(buffer, static_cast<std::size_t>(size));
    return lines_in(received);
  }

  // Reads what is available without waiting from the next connection, which stays open.
  std::vector<Json> lines_so_far() {
    const Fd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK));
    return read_lines(peer);
  }

 private:
  static std::vector<Json> read_lines(const Fd& peer) {
    std::string received;
    char buffer[4096];
    for (ssize_t size; (size = ::read(peer.get(), buffer, sizeof buffer)) > 0;)
      received.append(buffer, static_cast<std::size_t>(size));
    return lines_in(received);
  }
  static std::vector<Json> lines_in(const std::string& received) {
    std::vector<Json> lines;
    for (std::size_t at = 0, end; (end = received.find('\n', at)) != std::string::npos;
         at = end + 1)
      lines.push_back(parse_json(received.substr(at, end - at)).value());
    return lines;
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "report";
  Fd listener_;
};

TEST(Reporter, LinesArriveInOrderAndKeepWhatIsNotANumber) {
  Agent agent;
  {
    Reporter reporter({.socket = agent.path()});
    reporter.metrics(12, {{"loss", 2.5},
                          {"speed", std::nan("")},
                          {"norm", -std::numeric_limits<double>::infinity()}});
    reporter.progress(12, 400);
    reporter.checkpoint(12, "/runs/step-00000012");
    reporter.event(13, "rank 3 was lost");
  }
  const auto lines = agent.lines();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0]["kind"], "metrics");
  EXPECT_EQ(lines[0]["step"], 12);
  EXPECT_GT(lines[0]["time_us"].get<std::int64_t>(), 1'700'000'000'000'000);
  EXPECT_EQ(dump_json(lines[0]["values"]), R"({"loss":2.5,"speed":"NaN","norm":"-Infinity"})");
  EXPECT_EQ(dump_json(lines[1]), R"({"kind":"progress","step":12,"steps":400})");
  EXPECT_EQ(dump_json(lines[2]), R"({"kind":"checkpoint","step":12,"path":"/runs/step-00000012"})");
  EXPECT_EQ(lines[3]["kind"], "event");
  EXPECT_EQ(lines[3]["step"], 13);
  EXPECT_EQ(lines[3]["text"], "rank 3 was lost");
  EXPECT_GT(lines[3]["time_us"].get<std::int64_t>(), 1'700'000'000'000'000);
}

// Far below the time of a wait at each line, and far above the time of the lines on a busy machine.
constexpr auto kNotHeldUp = std::chrono::seconds(30);

TEST(Reporter, AnAbsentAgentCostsNothingButTheLines) {
  const auto bound = Deadline::after(kNotHeldUp);
  {
    Reporter reporter({.socket = "/nonexistent/report"});
    for (int step = 0; step < 100; ++step) reporter.progress(step, 100);
    while (reporter.dropped() < 100 && !bound.passed()) std::this_thread::yield();
    EXPECT_EQ(reporter.dropped(), 100);
  }
  EXPECT_FALSE(bound.passed());
}

TEST(Reporter, ASlowAgentNeverHoldsTheRankUp) {
  Agent agent;  // it accepts nothing, so that the socket's buffer fills
  const auto bound = Deadline::after(kNotHeldUp);
  {
    Reporter reporter({.socket = agent.path(),
                       .delivery_timeout = std::chrono::milliseconds(100),
                       .queue_limit = 1000});
    for (int step = 0; step < 3000; ++step) reporter.metrics(step, {{std::string(4000, 'n'), 1.0}});
    EXPECT_GT(reporter.dropped(), 0);
  }
  EXPECT_FALSE(bound.passed());
}

TEST(Reporter, LinesWaitForAnAgentThatReadsNothingForAWhile) {
  Agent agent;
  Reporter reporter({.socket = agent.path(), .delivery_timeout = Duration(0)});
  const std::string name(40'000, 'n');  // ten of them fill the socket's buffer
  for (int step = 0; step < 50; ++step) reporter.metrics(step, {{name, 1.0}});
  const auto lines = agent.first_lines(50);
  ASSERT_EQ(lines.size(), 50u);
  EXPECT_EQ(lines.back()["step"], 49);
  EXPECT_EQ(reporter.dropped(), 0);
}

TEST(Reporter, AFullQueueDropsMetricsAndNeverACheckpointOrAnEvent) {
  Agent agent;
  Reporter reporter({.socket = agent.path(), .queue_limit = 0});
  reporter.metrics(1, {{"loss", 1.0}});
  reporter.checkpoint(2, "/runs/step-00000002");
  reporter.event(3, "rank 3 was lost");
  const auto lines = agent.first_lines(2);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["kind"], "checkpoint");
  EXPECT_EQ(lines[1]["kind"], "event");
  EXPECT_EQ(reporter.dropped(), 1);
}

// As in a process that an exception or SIGABRT ends right after the call.
TEST(Reporter, AFaultHasArrivedWhenTheCallReturns) {
  Agent agent;
  Reporter reporter({.socket = agent.path(), .delivery_timeout = kNotHeldUp});
  reporter.progress(12, 400);
  reporter.fault(Fault::connection_lost, 2, "lost the connection to rank 2");
  const auto lines = agent.lines_so_far();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(
      dump_json(lines[1]),
      R"({"kind":"fault","fault":"connection_lost","rank":2,"text":"lost the connection to rank 2"})");
}

TEST(Reporter, AFaultWaitsNoLongerThanItsPatience) {
  Agent agent;  // it reads nothing
  const auto bound = Deadline::after(kNotHeldUp);
  Reporter reporter({.socket = agent.path(), .delivery_timeout = std::chrono::milliseconds(100)});
  for (int i = 0; i < 500; ++i) reporter.fault(Fault::timed_out, -1, std::string(100, 'n'));
  for (int i = 0; i < 5; ++i) reporter.fault(Fault::timed_out, -1, std::string(400000, 'n'));
  EXPECT_FALSE(bound.passed());
}

TEST(Reporter, WithoutAnAgentMetricsArePrinted) {
  testing::internal::CaptureStdout();
  {
    Reporter reporter({.socket = {}, .without_agent = WithoutAgent::print});
    reporter.metrics(3, {{"loss", 1.25}, {"speed", std::nan("")}});
    reporter.progress(3, 10);
    reporter.event(4, "rank 3 was lost");
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "step 3: loss 1.25 speed nan\nstep 4: rank 3 was lost\n");
}

TEST(Reporter, WithoutAnAgentNothingIsPrintedIfAskedSo) {
  testing::internal::CaptureStdout();
  {
    Reporter reporter({.socket = {}, .without_agent = WithoutAgent::discard});
    reporter.metrics(3, {{"loss", 1.25}});
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace lockstep::report
