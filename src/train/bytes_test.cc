// The bytes that ranks send in a step, group by group, equal the design's table.
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/flight/label.h"
#include "train/ranks_for_test.h"
#include "train/shard.h"
#include "train/trainings_for_test.h"

namespace lockstep::train::bytes_test {
namespace {

using ranks_for_test::Call;
using ranks_for_test::Rank;
using ranks_for_test::run_as_ranks;
using trainings_for_test::kPolicies;
using trainings_for_test::kRanks;
using trainings_for_test::policy_of;
using trainings_for_test::trainable_units;
using trainings_for_test::Training;

std::string label_of(const Call& call) {
  const auto* text = reinterpret_cast<const char*>(call.label.data());
  return {text, ::strnlen(text, comm::FlightLabel::kBytes)};
}

// The bytes that this rank sent for parameters and gradients, by the first word of the group's
// name.
std::map<std::string, std::int64_t> bytes_by_group(const std::vector<Call>& calls) {
  std::map<std::string, std::int64_t> bytes;
  for (const auto& call : calls)
    if (label_of(call).find(" of unit ") != std::string::npos)
      bytes[call.group.substr(0, call.group.find(' '))] += call.bytes;
  return bytes;
}

std::int64_t bytes_of(const ShardedModel& model, bool divided) {
  std::int64_t bytes = 0;
  for (const auto& unit : model.units())
    if (unit.divided() == divided && unit.trainable())
      bytes += unit.whole().numel() * static_cast<std::int64_t>(sizeof(double));
  return bytes;
}

std::int64_t frozen_bytes_of(const ShardedModel& model) {
  std::int64_t bytes = 0;
  for (const auto& unit : model.units())
    if (!unit.trainable())
      bytes += unit.whole().numel() * static_cast<std::int64_t>(sizeof(double));
  return bytes;
}

TEST(Bytes, AreWhatTheTableSaysInEveryPolicy) {
  constexpr int s = 3;
  const auto failures = run_as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    for (const auto& policy : kPolicies) {
      auto training = TRY(Training::start(self.mesh, policy, {.method = Sgd{}}));
      TRY(training->step(0, s));  // the first step checks the order
      self.backend->clear_calls();
      TRY(training->step(1, s));
      const auto sizes = TRY(policy_of(policy, kRanks));
      const int g = sizes.gradients;
      const int gathers = sizes.keep_gathered ? 1 : 2;  // of each micro-step
      const auto blocks = bytes_of(*training->model, true);
      const auto root = bytes_of(*training->model, false);
      const auto frozen = frozen_bytes_of(*training->model);
      EXPECT_EQ(frozen > 0, sizes.parameters > 1) << policy;
      const auto inside =
          (blocks * (gathers + 1) * s + frozen * gathers * s + root * (s + 1)) * (g - 1) / g;
      const auto replicas = kRanks / g;
      const auto across = 2 * (blocks + root) / g * (replicas - 1) / replicas;
      auto bytes = bytes_by_group(self.backend->calls());
      if (g == 1 || g == kRanks) {
        EXPECT_EQ(bytes["world"], inside + across) << policy;
      } else {
        EXPECT_EQ(bytes["shards"], inside) << policy;
        EXPECT_EQ(bytes["replicas"], across) << policy;
      }
    }
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Bytes, TheReplicasSumEachUnitOnceAStep) {
  const auto failures = run_as_ranks(kRanks, [&](Rank& self) -> Result<void> {
    auto training = TRY(Training::start(self.mesh, "mics:2", {.method = Sgd{}}));
    self.backend->clear_calls();
    TRY(training->step(0, 3));
    std::size_t sums = 0;
    for (const auto& call : self.backend->calls())
      if (call.group.starts_with("replicas")) ++sums;
    EXPECT_EQ(sums, trainable_units(*training->model));
    return {};
  });
  EXPECT_EQ(failures, "");
}

}  // namespace
}  // namespace lockstep::train::bytes_test
