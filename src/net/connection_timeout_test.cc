#include "net/connection_timeout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "net/socket.h"

namespace lockstep::net {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

int option(const Socket& socket, int level, int name) {
  int value = -1;
  socklen_t bytes = sizeof value;
  EXPECT_EQ(::getsockopt(socket.fd(), level, name, &value, &bytes), 0);
  return value;
}

TEST(Silence, IsAsTheEnvironmentSaysElseFiveSeconds) {
  EXPECT_EQ(connection_timeout_from({}).value(), 5s);
  EXPECT_EQ(connection_timeout_from({{"LOCKSTEP_CONNECTION_TIMEOUT", ""}}).value(), 5s);
  EXPECT_EQ(connection_timeout_from({{"LOCKSTEP_CONNECTION_TIMEOUT", "90s"}}).value(), 90s);
}

TEST(Silence, ThatIsNoneIsRefusedByItsName) {
  for (const char* bad : {"0", "5", "-5s", "soon", "999ms", "2h"}) {
    const auto refused = connection_timeout_from({{"LOCKSTEP_CONNECTION_TIMEOUT", bad}});
    EXPECT_EQ(refused.error().code, Code::invalid);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr(std::string("LOCKSTEP_CONNECTION_TIMEOUT=") + bad + ":"),
                      HasSubstr("1s to 1h"), HasSubstr("30s")));
  }
}

TEST(Silence, IsWhatTheKernelWatchesALifelineFor) {
  auto listener = Listener::tcp("127.0.0.1", 0).value();
  auto socket =
      Socket::connect_tcp("127.0.0.1", listener.port(), Deadline::after(std::chrono::seconds(30)))
          .value();
  for (const auto bound : {1s, 2s, 5s, 30s, 3600s}) {
    socket.set_keepalive(bound);
    EXPECT_EQ(option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT), 1000 * bound.count());
    EXPECT_EQ(option(socket, SOL_SOCKET, SO_KEEPALIVE), 1);
    const auto probes = option(socket, IPPROTO_TCP, TCP_KEEPCNT);
    const auto pause = option(socket, IPPROTO_TCP, TCP_KEEPINTVL);
    const auto idle = option(socket, IPPROTO_TCP, TCP_KEEPIDLE);
    EXPECT_LE(idle + pause, std::max<long>(2, bound.count())) << bound.count();
    EXPECT_LE(idle + probes * pause, std::max<long>(4, bound.count())) << bound.count();
  }
}

}  // namespace
}  // namespace lockstep::net
