#include "train/faults.h"

#include <cstdlib>
#include <cstring>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os/fd.h"
#include "base/temporary_folder_for_test.h"
#include "comm/group/fault.h"

namespace lockstep::train {
namespace {

using Kind = comm::GroupFault::Kind;

// Replaces the agent; the process reports to it from then on.
class Agent {
 public:
  Agent() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    ::setenv("LOCKSTEP_REPORT", path_.c_str(), 1);
  }
  // The reports received so far; a report call returns when it is delivered.
  std::string heard() {
    pollfd calls{listener_.get(), POLLIN, 0};
    if (::poll(&calls, 1, 0) == 1) caller_ = Fd(::accept(listener_.get(), nullptr, nullptr));
    char buffer[4096];
    const auto got = caller_ ? ::recv(caller_.get(), buffer, sizeof buffer, MSG_DONTWAIT) : -1;
    return got > 0 ? std::string(buffer, static_cast<std::size_t>(got)) : "";
  }

 private:
  const TemporaryFolder folder_;
  const std::string path_ = (folder_ / "report").string();
  const Fd listener_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Fd caller_;
};

// A process has one fault reporter, so this is one test with several parts.
TEST(Faults, ReachTheAgentUnlessARecoveryFollows) {
  Agent agent;
  enable_fault_reports();
  enable_fault_reports();
  EXPECT_EQ(agent.heard(), "");
  comm::notify_fault_listener({Kind::connection_lost, 2, "lost the connection to rank 2"});
  EXPECT_EQ(agent.heard(),
            "{\"kind\":\"fault\",\"fault\":\"connection_lost\",\"rank\":2,"
            "\"text\":\"lost the connection to rank 2\"}\n");
  EXPECT_TRUE(has_lost_connection());

  defer_fault_reports();
  clear_deferred_fault();
  EXPECT_FALSE(has_lost_connection());
  comm::notify_fault_listener({Kind::connection_lost, 3, "recovered from"});
  EXPECT_TRUE(has_lost_connection());
  clear_deferred_fault();
  comm::notify_fault_listener({Kind::timed_out, 1, "rank 1 is late"});
  EXPECT_EQ(agent.heard(), "");
  EXPECT_TRUE(report_deferred_fault());
  EXPECT_EQ(agent.heard(),
            "{\"kind\":\"fault\",\"fault\":\"timed_out\",\"rank\":1,"
            "\"text\":\"rank 1 is late\"}\n");

  clear_deferred_fault();
  EXPECT_FALSE(report_deferred_fault());
  EXPECT_EQ(agent.heard(), "");
  report_fault({Code::peer_lost, "the rendezvous is out of reach"}, 0);
  EXPECT_EQ(agent.heard(),
            "{\"kind\":\"fault\",\"fault\":\"connection_lost\",\"rank\":0,"
            "\"text\":\"the rendezvous is out of reach\"}\n");
}

}  // namespace
}  // namespace lockstep::train
