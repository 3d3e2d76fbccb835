// Policies by name, blocks, layouts: what is asked for, and what cannot be.
#include "train/policy.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "train/layout.h"
#include "train/ranks_for_test.h"
#include "train/shard.h"
#include "train/trainings_for_test.h"

namespace lockstep::policy_test {
namespace {

using ranks_for_test::as_ranks;
using ranks_for_test::Rank;
using trainings_for_test::Layer;
using trainings_for_test::Net;

std::string refusal(Net& net, const std::vector<torch::nn::Module*>& blocks) {
  const auto model = shard(net, Mesh::single(), {}, blocks);
  return model ? "" : model.error().message;
}

TEST(Blocks, WhatMakesNoSenseIsNamed) {
  Net net;
  Layer stranger(0);
  EXPECT_EQ(refusal(net, {net.layers[0].get(), net.layers[0].get()}),
            "unit layer0 is listed twice: name it once");
  EXPECT_EQ(refusal(net, {net.layers[0].get(), &stranger}),
            "unit 2 of 2 is no part of the module that is sharded: name its own submodules");
  Net outer;
  auto inner = outer.layers[0]->register_module("inner", std::make_shared<Layer>(0.4));
  EXPECT_EQ(refusal(outer, {outer.layers[0].get(), inner.get()}),
            "unit layer0.inner lies within unit layer0: name one of them");
}

TEST(Blocks, APolicyThatDividesParametersNeedsThem) {
  const auto failures = as_ranks(2, [&](Rank& self) -> Result<void> {
    Net net;
    const auto model = shard(net, self.mesh, TRY(parse_policy("zero3", 2)));
    EXPECT_FALSE(model);
    EXPECT_EQ(model.error().message,
              "policy zero3 (2, 2, 2) gathers one unit at a time, but none is named: give shard() "
              "the module's blocks, or use zero2");
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
  EXPECT_EQ(parse_policy("auto:16GiB", 4).value().memory, 16_GiB);
}

TEST(Policy, WhatCannotBeIsNamedWithWhatCan) {
  const auto refused = [](const char* name) { return parse_policy(name, 6).error().message; };
  EXPECT_EQ(refused("zero4"),
            "policy zero4: there are ddp, zero1, zero2, zero3, mics:P, mics:P+opt or auto");
  EXPECT_EQ(refused("mics:"),
            "policy mics:: there are ddp, zero1, zero2, zero3, mics:P, mics:P+opt or auto");
  EXPECT_EQ(refused("mics:4"),
            "policy mics:4 (4, 4, 4): groups of 4 do not divide 6 ranks: use one "
            "of 1, 2, 3, 6");
  EXPECT_EQ(refused("zero1+opt"), "policy zero1+opt: only mics:P takes +opt");
  EXPECT_EQ(refused("ddp+keep"),
            "policy ddp+keep (1, 1, 1): parameters are whole all the time: "
            "leave +keep away");
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
}  // namespace lockstep::policy_test
