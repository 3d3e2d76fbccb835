#include "comm/group/fault.h"

#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(GroupFaults, TheFirstStaysTheCurrentOneUntilItIsForgotten) {
  std::vector<int> told;
  listen_to_faults([&](const GroupFault& fault) { told.push_back(fault.rank); });
  tell_fault({GroupFault::Kind::connection_lost, 3, "lost the connection to rank 3"});
  tell_fault({GroupFault::Kind::timed_out, 1, "rank 1 is late"});
  EXPECT_EQ(told, (std::vector{3, 1}));
  EXPECT_EQ(current_fault()->rank, 3);
  forget_faults();
  EXPECT_FALSE(current_fault());
  tell_fault({GroupFault::Kind::timed_out, 1, "rank 1 is late"});
  EXPECT_EQ(current_fault()->rank, 1);
  forget_faults();
  listen_to_faults({});
}

TEST(GroupFaults, AreNotKeptWhereNothingListens) {
  listen_to_faults({});
  tell_fault({GroupFault::Kind::connection_lost, 3, "lost the connection to rank 3"});
  EXPECT_FALSE(current_fault());
}

}  // namespace
}  // namespace lockstep
