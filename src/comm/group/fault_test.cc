#include "comm/group/fault.h"

#include <vector>

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

TEST(GroupFaults, TheFirstStaysTheCurrentOneUntilItIsForgotten) {
  std::vector<int> told;
  set_fault_listener([&](const GroupFault& fault) { told.push_back(fault.rank); });
  notify_fault_listener({GroupFault::Kind::connection_lost, 3, "lost the connection to rank 3"});
  notify_fault_listener({GroupFault::Kind::timed_out, 1, "rank 1 is late"});
  EXPECT_EQ(told, (std::vector{3, 1}));
  EXPECT_EQ(first_fault()->rank, 3);
  clear_faults();
  EXPECT_FALSE(first_fault());
  notify_fault_listener({GroupFault::Kind::timed_out, 1, "rank 1 is late"});
  EXPECT_EQ(first_fault()->rank, 1);
  clear_faults();
  set_fault_listener({});
}

TEST(GroupFaults, AreNotKeptWhereNothingListens) {
  set_fault_listener({});
  notify_fault_listener({GroupFault::Kind::connection_lost, 3, "lost the connection to rank 3"});
  EXPECT_FALSE(first_fault());
}

}  // namespace
}  // namespace lockstep::comm
