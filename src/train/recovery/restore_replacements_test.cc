#include "train/recovery/restore_replacements.h"

#include <cstddef>
#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "train/data/sampler.h"
#include "train/ranks_for_test.h"
#include "train/trainings_for_test.h"

namespace lockstep::train::refill_test {
namespace {

using ranks_for_test::Rank;
using ranks_for_test::run_as_ranks;
using trainings_for_test::kRanks;

struct Case {
  std::string policy;
  std::vector<int> newcomers;
  std::vector<int> whose;      // by rank: the rank whose state it has afterwards
  std::string hosts = "aaaa";  // of the ranks
};

std::vector<NamedTensor> state_of(const ShardedModel& model, Optimizer& optimizer) {
  auto state = optimizer.flat_state().value();
  for (const auto& unit : model.units())
    state.push_back({format("unit {}", unit.index()), unit.master()});
  for (const auto& frozen : model.frozen()) state.push_back(frozen);
  return state;
}

// Each rank's state is its rank, also on a replacement.
TEST(Refill, NewcomersHaveTheStateOfOneThatHoldsItAndNobodyElseIsTouched) {
  const std::vector<Case> cases{
      {"ddp", {3}, {0, 1, 2, 0}},         {"ddp", {0, 3}, {1, 1, 2, 2}},
      {"ddp", {0, 1, 3}, {2, 2, 2, 2}},  // too few are left for one sender each
      {"mics:2", {3}, {0, 1, 2, 1}},      {"mics:2", {0, 3}, {2, 1, 2, 1}},
      {"ddp", {2}, {0, 1, 3, 3}, "aabb"}, {"ddp", {0, 1}, {2, 2, 2, 3}, "aaab"},
  };
  const auto failures = run_as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    const at::NoGradGuard no_grad;
    for (const auto& [policy, newcomers, whose, hosts] : cases) {
      const auto mesh = self.mesh.on({hosts[static_cast<std::size_t>(self.rank)]});
      auto training = TRY(trainings_for_test::Training::start(mesh, policy, {}));
      auto& model = *training->model;
      const auto state = state_of(model, *training->optimizer);
      for (const auto& [name, tensor] : state) tensor.fill_(self.rank);
      RecoveryPlan plan;
      plan.slots = {0, 1, 2, 3};
      plan.shards = model.policy().gradients;
      plan.replacements = newcomers;
      auto sampler = Sampler::create(100, 4, 1).value();
      TRY(restore_replacements(plan, {model, *training->optimizer, sampler}));
      for (const auto& [name, tensor] : state)
        EXPECT_TRUE(tensor.eq(whose[static_cast<std::size_t>(self.rank)]).all().item<bool>())
            << policy << ", " << newcomers.size() << " newcomers, rank " << self.rank << ", "
            << name;
    }
    return {};
  });
  EXPECT_EQ(failures, "");
}

}  // namespace
}  // namespace lockstep::train::refill_test
