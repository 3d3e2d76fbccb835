#include "comm/fabric/control_connection.h"

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/rendezvous/frame.h"

namespace lockstep::comm {
namespace {

using Kind = ControlMessage::Kind;

// A control connection, and the socket at its other end.
class ControlConnectionTest : public testing::Test {
 protected:
  ControlConnectionTest() { connect(); }
  void connect() {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    line = std::make_unique<ControlConnection>(net::Socket(Fd(ends[0])), Peer{1, "b", 77, 1});
    other = std::make_unique<ControlConnection>(net::Socket(Fd(ends[1])), Peer{0, "a", 76, 0});
  }
  void send(const std::string& bytes) {
    ASSERT_TRUE(other->socket().send_all(std::as_bytes(std::span(bytes)),
                                         Deadline::after(std::chrono::seconds(5))));
  }

  std::unique_ptr<ControlConnection> line, other;
};

TEST_F(ControlConnectionTest, AMessageThatIsPassedOnKeepsItsRoute) {
  other->send({.kind = Kind::call, .route = ControlMessage::Route{3, 900}});
  other->send(
      {Kind::failing, {}, {{Code::timeout, "late"}}, "report", ControlMessage::Route{1, 0}});
  const auto call = line->receive();
  ASSERT_TRUE(call && call->route);
  EXPECT_EQ(call->kind, Kind::call);
  EXPECT_EQ(call->route->from, 3);
  EXPECT_EQ(call->route->to, 900);
  const auto failing = line->receive();
  ASSERT_TRUE(failing && failing->route);
  EXPECT_EQ(failing->failure_report, "report");
}

TEST_F(ControlConnectionTest, AMessageWithinAPassedOnMessageWithinAnotherEndsTheConnection) {
  const auto route = join_fields({"1", "2"});
  send(framed(
      join_fields({"via", route, join_fields({"via", route, join_fields({"call", "", ""})})})));
  EXPECT_EQ(line->receive()->kind, Kind::lost);
}

TEST_F(ControlConnectionTest, BringsWhatWasToldInItsOrder) {
  const std::string testimony("\0\x01 a record\xff", 12);
  other->send({Kind::failing, {}, {{Code::timeout, "rank 1 waited"}, 7, true}, testimony});
  other->send({Kind::failure_reason, {}, {{Code::invalid, "the calls do not match"}}});
  other->send({Kind::leaving, {3, 1ULL << 60}});
  const auto failing = line->receive();
  ASSERT_TRUE(failing);
  EXPECT_EQ(failing->kind, Kind::failing);
  EXPECT_EQ(failing->failure_reason.error.code, Code::timeout);
  EXPECT_EQ(failing->failure_reason.error.message, "rank 1 waited");
  EXPECT_EQ(failing->failure_reason.rank_at_fault, 7);
  EXPECT_TRUE(failing->failure_reason.process_died);
  EXPECT_EQ(failing->failure_report, testimony);
  const auto verdict = line->receive();
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, Kind::failure_reason);
  EXPECT_EQ(verdict->failure_reason.error.message, "the calls do not match");
  const auto leaving = line->receive();
  ASSERT_TRUE(leaving);
  EXPECT_EQ(leaving->sent[1], 1ULL << 60);
  EXPECT_FALSE(line->receive());
  other.reset();
  const auto closed = line->receive();
  ASSERT_TRUE(closed);
  EXPECT_EQ(closed->kind, Kind::closed);
  EXPECT_FALSE(line->receive());
}

TEST_F(ControlConnectionTest, CutsWhatIsTooLongAndBringsIt) {
  other->send({Kind::failing,
               {},
               {{Code::timeout, std::string(10'000, 'x')}},
               std::string(2 * kFailureReportLimit, 'y')});
  const auto failing = line->receive();
  ASSERT_TRUE(failing);
  EXPECT_EQ(failing->failure_reason.error.message.size(), 4096u);
  EXPECT_EQ(failing->failure_report.size(), kFailureReportLimit);
}

TEST_F(ControlConnectionTest, EndsWithWhatIsNoNotice) {
  const std::vector<std::string> frames = {
      framed(""),
      framed("garbage"),
      framed(join_fields({"failing", "0", "no fields"})),
      framed(join_fields({"failing", "99", join_fields({"why", "", "-1", ""})})),
      framed(join_fields({"verdict", "-1", join_fields({"why", "", "-1", ""})})),
      framed(join_fields({"gave up", "x", join_fields({"why", "", "-1", ""})})),
      framed(join_fields({"verdict", "3", join_fields({"why", "", "rank 1", ""})})),
      framed(join_fields({"leaving", "1", "many"})),
      framed(join_fields({"bless", "", ""})),
      std::string("\xff\xff\xff\xff", 4),
  };
  for (const auto& frame : frames) {
    SCOPED_TRACE(frame);
    connect();
    send(frame);
    const auto end = line->receive();
    ASSERT_TRUE(end);
    EXPECT_EQ(end->kind, Kind::lost);
    EXPECT_TRUE(line->is_closed());
  }
}

TEST(PeerProcess, HasEndedOnlyWhenItIsNoMore) {
  int called[2];
  ASSERT_EQ(::pipe2(called, O_CLOEXEC), 0);
  const auto name = "@lockstep-test-" + std::to_string(::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    const auto listener = net::Listener::unix_socket(name);
    [[maybe_unused]] const auto wrote = ::write(called[1], "l", 1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(called[0], &byte, 1), 1);
  const auto socket = net::Socket::connect_unix(name, Deadline::after(std::chrono::seconds(10)));
  ASSERT_TRUE(socket);
  const PeerProcess peer(*socket);
  EXPECT_FALSE(peer.has_ended());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(peer.has_ended());
  EXPECT_FALSE(PeerProcess(net::Socket()).has_ended()) << "none is known";
  ::close(called[0]);
  ::close(called[1]);
}

}  // namespace
}  // namespace lockstep::comm
