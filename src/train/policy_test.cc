// Policies by name, blocks, layouts: valid and invalid requests.
#include "train/policy.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/engine/layout.h"
#include "train/ranks_for_test.h"
#include "train/shard.h"
#include "train/trainings_for_test.h"

namespace lockstep::train::policy_test {
namespace {

using ranks_for_test::Rank;
using ranks_for_test::run_as_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using trainings_for_test::Layer;
using trainings_for_test::Net;

std::string refusal(Net& net, const std::vector<torch::nn::Module*>& blocks) {
  const auto model = shard(net, Mesh::single(), {}, blocks);
  if (model) return "";
  EXPECT_EQ(model.error().code, Code::invalid);
  return model.error().message;
}

TEST(Blocks, WhatMakesNoSenseIsNamed) {
  Net net;
  Layer stranger(0);
  EXPECT_THAT(refusal(net, {net.layers[0].get(), net.layers[0].get()}),
              AllOf(HasSubstr("layer0"), HasSubstr("twice")));
  EXPECT_THAT(refusal(net, {net.layers[0].get(), &stranger}),
              AllOf(HasSubstr("2 of 2"), HasSubstr("no part of the module")));
  Net outer;
  auto inner = outer.layers[0]->register_module("inner", std::make_shared<Layer>(0.4));
  EXPECT_THAT(refusal(outer, {outer.layers[0].get(), inner.get()}),
              AllOf(HasSubstr("layer0.inner"), HasSubstr("within unit layer0")));
}

TEST(Blocks, APolicyThatDividesParametersNeedsThem) {
  const auto failures = run_as_ranks(2, [&](Rank& self) -> Result<void> {
    Net net;
    const auto model = shard(net, self.mesh, TRY(parse_policy("zero3", 2)));
    EXPECT_FALSE(model);
    EXPECT_EQ(model.error().code, Code::invalid);
    EXPECT_THAT(model.error().message, AllOf(HasSubstr("zero3 (2, 2, 2)"), HasSubstr("shard()"),
                                             HasSubstr("blocks"), HasSubstr("zero2")));
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Policy, EveryNameIsReadAndSaid) {
  const auto said = [](const char* name) { return text(parse_policy(name, 4).value(), 4); };
  EXPECT_EQ(said("ddp"), "ddp (1, 1, 1)");
  EXPECT_EQ(said("zero1"), "zero1 (1, 1, 4)");
  EXPECT_EQ(said("zero2"), "zero2 (1, 4, 4)");
  EXPECT_EQ(said("zero3"), "zero3 (4, 4, 4)");
  EXPECT_EQ(said("mics:2"), "mics:2 (2, 2, 2)");
  EXPECT_EQ(said("mics:2+opt"), "mics:2+opt (2, 2, 4)");
  EXPECT_EQ(said("mics:2+opt+keep"), "mics:2+opt+keep (2, 2, 4)");
  EXPECT_EQ(said("mics:4"), "zero3 (4, 4, 4)");
  EXPECT_EQ(said("zero3+recompute+keep"), "zero3+keep+recompute (4, 4, 4)");
  EXPECT_EQ(said("auto+recompute"), "auto+recompute");
  EXPECT_EQ(said("zero1+offload+recompute"), "zero1+recompute+offload (1, 1, 4)");
  EXPECT_EQ(parse_policy("auto:16GiB", 4).value().memory, 16_GiB);
}

TEST(Policy, WhatCannotBeIsNamedWithWhatCan) {
  const auto refused = [](const char* name) { return parse_policy(name, 6).error().message; };
  EXPECT_THAT(refused("zero4"),
              AllOf(HasSubstr("policy zero4: "),
                    HasSubstr("ddp, zero1, zero2, zero3, mics:P, mics:P+opt"), HasSubstr("auto")));
  EXPECT_THAT(refused("mics:"),
              AllOf(HasSubstr("policy mics:: "),
                    HasSubstr("ddp, zero1, zero2, zero3, mics:P, mics:P+opt"), HasSubstr("auto")));
  EXPECT_THAT(refused("mics:4"),
              AllOf(HasSubstr("policy mics:4 (4, 4, 4): "), HasSubstr("groups of 4"),
                    HasSubstr("6 ranks"), HasSubstr("1, 2, 3, 6")));
  EXPECT_THAT(refused("zero1+opt"),
              AllOf(HasSubstr("policy zero1+opt: "), HasSubstr("mics:P"), HasSubstr("+opt")));
  EXPECT_THAT(refused("ddp+keep"),
              AllOf(HasSubstr("policy ddp+keep (1, 1, 1): "), HasSubstr("+keep")));
  EXPECT_EQ(refused("auto:much").substr(0, 17), "policy auto:much:");
  EXPECT_EQ(check({.gradients = 2, .optimizer = 3}, 6).error().code, Code::invalid);
  EXPECT_EQ(check({.parameters = 2, .gradients = 6, .optimizer = 6}, 6).error().code,
            Code::invalid);
}

TEST(Layout, EachRankOwnsOneSliceOfEachUnitAndTogetherTheyOwnAll) {
  const auto build = [](int index) {
    return Layout::build({{"a", {7, 7}, at::kDouble, 0}, {"b", {3}, at::kDouble, 1}},
                         {.parameters = 4, .gradients = 4, .optimizer = 4}, {index, 4});
  };
  std::int64_t owned = 0;
  for (int index = 0; index < 4; ++index) {
    const auto layout = build(index);
    ASSERT_EQ(layout.units.size(), 2u);
    EXPECT_EQ(layout.units[0].block, 1);      // backward comes to the last first
    EXPECT_EQ(layout.units[0].elements, 32);  // four slices of 64 bytes
    EXPECT_EQ(layout.parameters[1].owned, index == 0 ? (Interval{0, 3}) : Interval{});
    EXPECT_EQ(layout.parameters[0].owned.begin, 16 * index);
    owned += layout.parameters[0].owned.size();
  }
  EXPECT_EQ(owned, 49);
}

}  // namespace
}  // namespace lockstep::train::policy_test
