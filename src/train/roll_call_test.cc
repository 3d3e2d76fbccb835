// Ranks that do not run the same units in the same order are told which.
#include "train/roll_call.h"

#include <utility>

#include <gtest/gtest.h>

#include "train/ranks_for_test.h"
#include "train/trainings_for_test.h"

namespace lockstep::roll_call_test {
namespace {

using ranks_for_test::as_ranks;
using ranks_for_test::Rank;
using trainings_for_test::kRanks;
using trainings_for_test::Training;

TEST(RollCall, RanksThatRunUnitsInAnotherOrderAreToldWhich) {
  const auto failures = as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    auto training = TRY(Training::start(self.mesh, "zero3", {.method = Sgd{}}));
    auto& net = training->net;
    if (self.rank == 2) std::swap(net.layers[0], net.layers[1]);
    const auto stepped = training->step(0, 1);
    if (stepped) return Error{Code::invalid, "nobody was told"};
    EXPECT_EQ(stepped.error().message,
              "ranks 0 to 3 do not run the same units in the same order: rank 0 gathers unit 5 "
              "(layer0), rank 2 gathers unit 3 (layer1); run every unit on all ranks alike");
    EXPECT_FALSE(training->model->status());
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(RollCall, ARankThatLeavesAUnitOutIsNamed) {
  const auto failures = as_ranks(2, [&](Rank& self) -> Result<void> {
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

// Acts of later steps are compared at their end.
TEST(RollCall, ALaterStepThatDiffersIsNamedBeforeItsEnd) {
  const auto failures = as_ranks(4, [&](Rank& self) -> Result<void> {
    RollCall roll(TRY(self.mesh.cut(2)), {"unit 0 (a)", "unit 1 (b)"});
    for (int step = 0; step < 3; ++step) {
      const bool differs = step == 2 && self.rank == 3;
      TRY(roll.announce(RollCall::Act::gather, 0));
      TRY(roll.announce(RollCall::Act::gather, differs ? 0 : 1));
      if (!differs) TRY(roll.announce(RollCall::Act::reduce, 1));
      const auto finished = roll.finish();
      if (step < 2 || self.rank < 2) {
        EXPECT_TRUE(finished) << "step " << step;
      } else {
        EXPECT_EQ(finished.error().message,
                  "ranks 2 to 3 do not run the same units in the same order: rank 2 gathers unit 1 "
                  "(b), rank 3 gathers unit 0 (a); run every unit on all ranks alike");
      }
    }
    return {};
  });
  EXPECT_EQ(failures, "");
}

}  // namespace
}  // namespace lockstep::roll_call_test
