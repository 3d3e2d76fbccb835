#include "comm/choice/plan_chooser.h"

#include <gtest/gtest.h>

#include "comm/choice/choose.h"

namespace lockstep::comm {
namespace {

constexpr GroupShape kGroup{8, 4, 2, 2};

TEST(PlanChooser, ChoosesAsChooseDoesAlsoWhenItRemembers) {
  PlanChooser chooser(kGroup, std::nullopt, {});
  for (int again = 0; again < 3; ++again)
    for (const auto operation : {Operation::all_reduce, Operation::broadcast, Operation::barrier})
      for (std::size_t bytes = 0; bytes < 1 << 20; bytes += 4096 + bytes / 4)
        EXPECT_EQ(chooser.plan_for(operation, bytes), choose(operation, bytes, kGroup, {}));
}

TEST(PlanChooser, TakesWhatIsForcedWhereverItFits) {
  const CallPlan tree{Algorithm::double_tree, false};
  PlanChooser chooser(kGroup, tree, {});
  EXPECT_EQ(chooser.plan_for(Operation::all_reduce, 8), tree);
  EXPECT_EQ(chooser.plan_for(Operation::broadcast, 1 << 20), tree);
  EXPECT_EQ(chooser.plan_for(Operation::barrier, 0), choose(Operation::barrier, 0, kGroup, {}));
}

}  // namespace
}  // namespace lockstep::comm
