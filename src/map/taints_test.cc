#include "map/taints.h"

#include <gtest/gtest.h>

namespace lockstep::map {
namespace {

Labels tainted() {
  Labels labels = {{"rack", "a3"}};
  labels.insert(taint_label({"spot", "true", "NoSchedule"}).value());
  labels.insert(taint_label({"example.com/team", "", "NoExecute"}).value());
  return labels;
}

TEST(Taints, AHostTakesRunsThatTolerateEachOfThem) {
  EXPECT_TRUE(tolerates({"spot=true:NoSchedule", "example.com/team"}, tainted()));
  EXPECT_TRUE(tolerates({"spot", "example.com/team:NoExecute"}, tainted()));
  EXPECT_FALSE(tolerates({"spot"}, tainted()));
  EXPECT_FALSE(tolerates({"spot=false", "example.com/team"}, tainted()));
  EXPECT_FALSE(tolerates({"spot:NoExecute", "example.com/team"}, tainted()));
  EXPECT_FALSE(tolerates({}, tainted()));
  EXPECT_TRUE(tolerates({}, {{"rack", "a3"}}));
}

TEST(Taints, TheyAreShownAsKubectlHasThem) {
  EXPECT_EQ(taints_text(tainted()), "example.com/team:NoExecute, spot=true:NoSchedule");
  EXPECT_TRUE(has_taints(tainted()));
  EXPECT_FALSE(has_taints({{"rack", "a3"}, {"zone", "b"}}));
}

TEST(Taints, OneWithAWordThatIsTooLongIsNoLabel) {
  EXPECT_FALSE(taint_label({std::string(63, 'a'), "", "NoSchedule"}));
}

}  // namespace
}  // namespace lockstep::map
