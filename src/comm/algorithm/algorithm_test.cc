#include "comm/algorithm/algorithm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/algorithm/links/flat_all_reduce.h"

namespace lockstep::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Operation kCollectives[] = {
    Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
    Operation::broadcast,  Operation::reduce,         Operation::gather,
    Operation::scatter,    Operation::all_to_all,     Operation::barrier};

TEST(CallPlan, ANameIsReadAsItIsWritten) {
  for (const auto algorithm : kAlgorithms)
    for (const bool hierarchical : {false, true}) {
      const CallPlan plan{algorithm, hierarchical};
      EXPECT_EQ(parse_plan(text(plan)).value(), plan);
    }
  EXPECT_EQ(text(CallPlan{Algorithm::double_tree, true}), "double_tree,hierarchical");
}

TEST(CallPlan, AnUnknownNameIsRefusedWithTheNamesThereAre) {
  for (const auto* words : {"", "rings", "ring,", "ring,flat", ",hierarchical", "hierarchical"}) {
    const auto plan = parse_plan(words);
    ASSERT_FALSE(plan) << words;
    EXPECT_EQ(plan.error().code, Code::invalid);
    EXPECT_THAT(plan.error().message,
                AllOf(HasSubstr(std::string("'") + words + "'"),
                      HasSubstr("flat, ring, recursive_doubling, halving_doubling, double_tree, "
                                "pairwise, dissemination"),
                      HasSubstr(",hierarchical")));
  }
}

TEST(Shape, TellsOfHostsHowManyRanksTheyHave) {
  const std::vector<std::vector<int>> hosts = {{0, 3, 4}, {1}, {2, 5}};
  EXPECT_EQ(shape_of(hosts), (GroupShape{6, 3, 1, 3}));
  EXPECT_FALSE(shape_of(hosts).is_uniform());
}

TEST(CallPlan, OneFitsWhateverIsCalled) {
  for (const auto operation : kCollectives)
    for (const std::size_t bytes : {0u, 8u, 4096u, 4097u, 1u << 30})
      for (const auto& group :
           {GroupShape{2, 2, 1, 1}, GroupShape{8, 2, 4, 4}, GroupShape{5, 2, 2, 3},
            GroupShape{1000, 5, 200, 200}, GroupShape{200, 1, 200, 200}})
        EXPECT_FALSE(fitting_plans(operation, bytes, group).empty())
            << text(operation) << " " << bytes << " " << group.ranks;
}

TEST(CallPlan, HierarchyNeedsHostsWithSeveralRanks) {
  const CallPlan plan{Algorithm::ring, true};
  const GroupShape single{4, 4, 1, 1}, even{4, 2, 2, 2}, uneven{5, 2, 2, 3},
      crowded{200, 2, 100, 100};
  EXPECT_FALSE(fits(plan, Operation::all_reduce, 8, single));
  EXPECT_FALSE(fits(plan, Operation::all_reduce, 8, crowded));
  EXPECT_TRUE(fits(plan, Operation::all_reduce, 8, uneven));
  EXPECT_TRUE(fits(plan, Operation::broadcast, 8, uneven));
  EXPECT_TRUE(fits(plan, Operation::all_gather, 8, even));
  EXPECT_TRUE(fits(plan, Operation::all_gather, 8, uneven));
  EXPECT_TRUE(fits(plan, Operation::reduce_scatter, 8, uneven));
  EXPECT_TRUE(fits(plan, Operation::reduce, 8, uneven));
  EXPECT_TRUE(fits({Algorithm::double_tree, true}, Operation::reduce, 8, even));
  EXPECT_FALSE(fits({Algorithm::halving_doubling, true}, Operation::reduce, 8, even));
}

TEST(CallPlan, FlatIsForWhatOneMessageHolds) {
  const GroupShape group{4, 4, 1, 1};
  EXPECT_TRUE(fits({Algorithm::flat}, Operation::all_reduce, kFlatBytes, group));
  EXPECT_FALSE(fits({Algorithm::flat}, Operation::all_reduce, kFlatBytes + 1, group));
}

}  // namespace
}  // namespace lockstep::comm
