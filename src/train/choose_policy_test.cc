// The policy that `auto` chooses, and the members of each group.
#include "train/choose_policy.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/sin.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "base/format.h"
#include "train/ranks_for_test.h"
#include "train/shard.h"

namespace lockstep::train::choose_test {
namespace {

using ranks_for_test::Rank;
using ranks_for_test::run_as_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::int64_t> hosts(int count, int ranks_each) {
  std::vector<std::int64_t> host_of_rank;
  for (int host = 0; host < count; ++host)
    host_of_rank.insert(host_of_rank.end(), static_cast<std::size_t>(ranks_each), 100 + host);
  return host_of_rank;
}

TEST(Places, NeighboursAreOnOneHostHoweverRanksWereDealt) {
  const RankPlacement dealt(std::vector<std::int64_t>{7, 5, 7, 5, 9, 9});
  EXPECT_EQ(dealt.ranks_by_host(), (std::vector<int>{0, 2, 1, 3, 4, 5}));
  EXPECT_EQ(dealt.group_of(3, 2).ranks, (std::vector<int>{1, 3}));
  EXPECT_EQ(dealt.group_of(3, 2).index, 1);
  EXPECT_EQ(dealt.group_of(3, 2).number, 1);
  EXPECT_EQ(dealt.hosts(), 3);
  EXPECT_EQ(dealt.host_of_rank(), (std::vector<int>{0, 1, 0, 1, 2, 2}));
}

TEST(Places, AGroupLiesWithinAHostOrIsOfWholeHosts) {
  const RankPlacement even(hosts(4, 4));
  for (int group : {1, 2, 4, 8, 16}) EXPECT_TRUE(even.fits_hosts(group)) << group;
  const RankPlacement uneven(std::vector<std::int64_t>{1, 1, 1, 1, 2, 2});
  EXPECT_TRUE(uneven.fits_hosts(2));
  EXPECT_FALSE(uneven.fits_hosts(3)) << "of the second three one is on the first host";
  EXPECT_TRUE(uneven.fits_hosts(6));
  EXPECT_FALSE(RankPlacement(hosts(2, 3)).fits_hosts(2));
  EXPECT_EQ(even.describe_groups(4), "groups within hosts");
  EXPECT_EQ(even.describe_groups(8), "groups of 2 hosts");
  EXPECT_EQ(even.describe_groups(16), "one group, of 4 hosts");
}

TEST(Mesh, ShardGroupsAreOnOneHost) {
  const auto failures = run_as_ranks(4, [](Rank& self) -> Result<void> {
    auto mesh = self.mesh.on(self.rank % 2 == 0 ? "even" : "odd");
    const auto cut = TRY(mesh.with_shard_groups(2));
    const int buddy = (self.rank + 2) % 4;
    EXPECT_EQ(cut.shard_ranks(),
              (std::vector{std::min(self.rank, buddy), std::max(self.rank, buddy)}));
    EXPECT_EQ(cut.shard().size(), 2);
    EXPECT_EQ(cut.replicate().rank(), self.rank % 2);
    return {};
  });
  EXPECT_EQ(failures, "");
}

// Eight blocks of a million parameters, and a root of a thousand.
std::vector<ParameterSpec> million_each(at::ScalarType type) {
  std::vector<ParameterSpec> all{{"root", {1000}, type}};
  for (int i = 0; i < 8; ++i) all.push_back({format("block{}", i), {1000, 1000}, type, i});
  return all;
}

TEST(MemoryEstimate, HasNoOptimizerThatIsInMainMemory) {
  const auto specs = million_each(at::kBFloat16);
  const Policy policy{.offload = true};
  const auto estimate = estimate_memory(Layout::build(specs, policy), policy);
  EXPECT_EQ(estimate.optimizer, 0_B);
  EXPECT_NEAR(static_cast<double>(estimate.total().count()), 16e6 + 32e6, 1e5);
}

MemoryEstimate need_of_groups(const std::vector<ParameterSpec>& specs, int size) {
  const Policy policy{.parameters = size, .gradients = size, .optimizer = size};
  return estimate_memory(Layout::build(specs, policy, {0, size}), policy);
}

TEST(MemoryEstimate, IsWhatARankHolds) {
  const auto whole = need_of_groups(million_each(at::kFloat), 1);
  EXPECT_NEAR(static_cast<double>(whole.parameters.count()), 32.004e6, 1e4);
  EXPECT_EQ(whole.gradients, whole.parameters);
  EXPECT_EQ(whole.optimizer, whole.parameters * 2);
  EXPECT_EQ(whole.in_flight, 0_B);

  const auto quarter = need_of_groups(million_each(at::kBFloat16), 4);
  EXPECT_NEAR(static_cast<double>(quarter.parameters.count()), 16e6 / 4, 1e4);
  EXPECT_NEAR(static_cast<double>(quarter.gradients.count()), 32e6 / 4, 1e4);
  EXPECT_NEAR(static_cast<double>(quarter.optimizer.count()), 3 * 32e6 / 4, 1e4);
  EXPECT_NEAR(static_cast<double>(quarter.in_flight.count()), 5 * 4e6, 1e4)
      << "three gathered, two being reduced, in buffers for gradients of 32 bits";
}

TEST(Choice, IsTheSmallestGroupThatFitsAndKeepsToHosts) {
  const auto specs = million_each(at::kFloat);
  const RankPlacement places(hosts(4, 4));
  const auto chosen = [&](Bytes memory) {
    return choose_policy({.automatic = true}, specs, places, memory, true);
  };
  const auto just = [&](int size) {  // three quarters are for what it needs
    return Bytes(need_of_groups(specs, size).total().count() * 4 / 3 + 8);
  };
  for (int size : {1, 2, 4, 8, 16})
    EXPECT_EQ(chosen(just(size)).value().policy.parameters, size) << size;
  EXPECT_EQ(chosen(just(2) - 100_B).value().policy.parameters, 4);
  EXPECT_THAT(chosen(80_MiB).value().reason,
              AllOf(HasSubstr("mics:4 (4, 4, 4)"), HasSubstr("groups within hosts"),
                    HasSubstr("49.6 MiB of 80.0 MiB"), HasSubstr("parameters 7.6 MiB"),
                    HasSubstr("gradients 7.6 MiB"), HasSubstr("optimizer 15.3 MiB"),
                    HasSubstr("19.1 MiB"), HasSubstr("mics:2 (2, 2, 2)"), HasSubstr("80.1 MiB")));
}

TEST(Choice, IfNothingFitsTheNearestIsNamed) {
  const auto refused = choose_policy({.automatic = true}, million_each(at::kFloat),
                                     RankPlacement(hosts(2, 2)), 10_MiB, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::exhausted);
  EXPECT_THAT(
      refused.error().message,
      AllOf(HasSubstr("policy auto: "), HasSubstr("10.0 MiB"), HasSubstr("zero3 (4, 4, 4)"),
            HasSubstr("49.6 MiB"), HasSubstr("parameters 7.6 MiB"), HasSubstr("gradients 7.6 MiB"),
            HasSubstr("optimizer 15.3 MiB"), HasSubstr("19.1 MiB"), HasSubstr("auto:80GiB")));
  const auto blockless = choose_policy({.automatic = true}, million_each(at::kFloat),
                                       RankPlacement(hosts(2, 2)), 10_MiB, false);
  EXPECT_NE(blockless.error().message.find("ddp (1, 1, 1) takes 122.1 MiB"), std::string::npos)
      << blockless.error().message;
}

TEST(Choice, AModelIsShardedByIt) {
  at::set_num_threads(1);
  const auto failures = run_as_ranks(4, [](Rank& self) -> Result<void> {
    torch::nn::Sequential net(torch::nn::Linear(32, 32), torch::nn::Linear(32, 32),
                              torch::nn::Linear(32, 32), torch::nn::Linear(32, 32));
    auto mesh = self.mesh.on(self.rank < 2 ? "a" : "b");
    auto model = TRY(shard(*net, mesh, TRY(parse_policy("auto:80KiB", 4))));
    EXPECT_EQ(text(model->policy(), 4), "mics:2 (2, 2, 2)");
    EXPECT_EQ(model->mesh().shard_ranks(), (std::vector{self.rank / 2 * 2, self.rank / 2 * 2 + 1}));
    TRY(model->backward(model->forward(at::sin(at::arange(64.0F)).view({2, 32})).sum(), Sync::now));
    return model->finish_gradients();
  });
  EXPECT_EQ(failures, "");
}

// The others are in the middle of the training: a collective would wait for them.
TEST(Choice, OfThoseThatARankJoinsIsKeptWithoutACollective) {
  for (const int size : {1, 2}) {
    const auto failures = run_as_ranks(4, [&](Rank& self) -> Result<void> {
      const auto mesh = TRY(self.mesh.with_consecutive_shard_groups(size));
      if (self.rank != 2) return {};
      torch::nn::Sequential net(torch::nn::Linear(32, 32), torch::nn::Linear(32, 32));
      const auto before = self.backend->calls().size();
      const auto policy = TRY(parse_policy("auto:80KiB", 4));
      const auto model = TRY(shard(*net, mesh, policy, {}, InitialValues::deferred));
      EXPECT_EQ(text(model->policy(), 4), size == 1 ? "ddp (1, 1, 1)" : "mics:2 (2, 2, 2)");
      EXPECT_EQ(self.backend->calls().size(), before);
      return {};
    });
    EXPECT_EQ(failures, "");
  }
}

}  // namespace
}  // namespace lockstep::train::choose_test
