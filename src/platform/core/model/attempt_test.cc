#include "platform/core/model/attempt.h"

#include <gtest/gtest.h>

namespace lockstep::model {
namespace {

Node two_ranks() {
  Node node;
  node.devices = {0, 1};
  node.ranks = {{.rank = 0}, {.rank = 1}};
  return node;
}

TEST(Node, ThatWasHeardAgainOrHasGoneFurtherIsNoNews) {
  Node later = two_ranks();
  later.last_heartbeat += std::chrono::seconds(3);
  later.ranks[1].step = 7;
  EXPECT_FALSE(has_material_change(two_ranks(), later));
}

TEST(Node, WhoseRankEndedStalledOrDoesSomethingElseIsNews) {
  Node later = two_ranks();
  later.ranks[0].state = RankState::exited;
  EXPECT_TRUE(has_material_change(two_ranks(), later));
  later = two_ranks();
  later.ranks[0].stalled_since = Time();
  EXPECT_TRUE(has_material_change(two_ranks(), later));
  later = two_ranks();
  later.ranks[0].activity = Activity::stopped;
  EXPECT_TRUE(has_material_change(two_ranks(), later));
  later = two_ranks();
  later.ranks.pop_back();
  EXPECT_TRUE(has_material_change(two_ranks(), later));
}

}  // namespace
}  // namespace lockstep::model
