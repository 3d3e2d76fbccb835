// Ranks that do not run the same units in the same order get an error that names the units.
#include "train/group/collective_order_checker.h"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/ranks_for_test.h"
#include "train/trainings_for_test.h"

namespace lockstep::train::roll_call_test {
namespace {

using ranks_for_test::Rank;
using ranks_for_test::run_as_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using trainings_for_test::kRanks;
using trainings_for_test::Training;

TEST(CollectiveOrderChecker, RanksThatRunUnitsInAnotherOrderAreToldWhich) {
  const auto failures = run_as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    auto training = TRY(Training::start(self.mesh, "zero3", {.method = Sgd{}}));
    auto& net = training->net;
    if (self.rank == 2) std::swap(net.layers[0], net.layers[1]);
    const auto stepped = training->step(0, 1);
    if (stepped) return Error{Code::invalid, "nobody was told"};
    EXPECT_EQ(stepped.error().code, Code::invalid);
    EXPECT_THAT(stepped.error().message,
                AllOf(HasSubstr("ranks 0 to 3"), HasSubstr("rank 0 gathers unit 5 (layer0)"),
                      HasSubstr("rank 2 gathers unit 3 (layer1)")));
    EXPECT_FALSE(training->model->status());
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(CollectiveOrderChecker, ARankThatLeavesAUnitOutIsNamed) {
  const auto failures = run_as_ranks(2, [&](Rank& self) -> Result<void> {
    auto training = TRY(Training::start(self.mesh, "zero3", {.method = Sgd{}}));
    auto& net = training->net;
    if (self.rank == 1) {
      net.layers.pop_back();
      net.scales.pop_back();
    }
    const auto stepped = training->step(0, 1);
    if (stepped) return Error{Code::invalid, "nobody was told"};
    EXPECT_NE(stepped.error().message.find("(layer2)"), std::string::npos);
    return {};
  });
  EXPECT_EQ(failures, "");
}

// Actions of later steps are compared at their end.
TEST(CollectiveOrderChecker, ALaterStepThatDiffersIsNamedBeforeItsEnd) {
  const auto failures = run_as_ranks(4, [&](Rank& self) -> Result<void> {
    CollectiveOrderChecker roll(TRY(self.mesh.with_shard_groups(2)), {"unit 0 (a)", "unit 1 (b)"});
    for (int step = 0; step < 3; ++step) {
      const bool differs = step == 2 && self.rank == 3;
      TRY(roll.record_action(CollectiveOrderChecker::OrderedAction::gather, 0));
      TRY(roll.record_action(CollectiveOrderChecker::OrderedAction::gather, differs ? 0 : 1));
      if (!differs) TRY(roll.record_action(CollectiveOrderChecker::OrderedAction::reduce, 1));
      const auto finished = roll.finish();
      if (step < 2 || self.rank < 2) {
        EXPECT_TRUE(finished) << "step " << step;
      } else {
        EXPECT_EQ(finished.error().code, Code::invalid);
        EXPECT_THAT(finished.error().message,
                    AllOf(HasSubstr("ranks 2 to 3"), HasSubstr("rank 2 gathers unit 1 (b)"),
                          HasSubstr("rank 3 gathers unit 0 (a)")));
      }
    }
    return {};
  });
  EXPECT_EQ(failures, "");
}

}  // namespace
}  // namespace lockstep::train::roll_call_test
