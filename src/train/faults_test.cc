#include "train/faults.h"

#include <gtest/gtest.h>

#include "comm/group/fault.h"
#include "train/agent_for_test.h"

namespace lockstep::train {
namespace {

using agent_for_test::Agent;
using Kind = comm::GroupFault::Kind;

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
