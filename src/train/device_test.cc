// The engine on a device whose kernels are queued and whose memory the host cannot read, over a
// group that behaves as NCCL does: the results are those of the CPU, and the host waits rarely.
#include <chrono>
#include <future>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/engine/buffer_pool.h"
#include "train/engine/device_memory.h"
#include "train/group/rank_placement.h"
#include "train/ranks_for_test.h"
#include "train/simulated_device/memory.h"
#include "train/simulated_device/nccl_like.h"
#include "train/simulated_device/simulated_device.h"
#include "train/simulated_device/stream.h"
#include "train/trainings_for_test.h"

namespace lockstep::train::device_test {
namespace {

using ranks_for_test::Rank;
using ranks_for_test::run_as_ranks;
using ranks_for_test::run_on_devices;
using trainings_for_test::alone;
using trainings_for_test::compare;
using trainings_for_test::kPolicies;
using trainings_for_test::kRanks;
using trainings_for_test::Training;

struct Recipe {
  const char* name;
  OptimizerOptions options;
  int parts;
};

class DevicePolicies : public ::testing::Test {
 protected:
  DevicePolicies() { BufferPool::poison_released_for_test(true); }
  ~DevicePolicies() override { BufferPool::poison_released_for_test(false); }
};

// The group's transfers time out after 200 ms.
Result<void> run_rank_with_time_out(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                    int size, const std::function<Result<void>(Rank&)>& body) {
  const auto device = simulated_device::device(rank);
  auto options = c10::make_intrusive<simulated_device::NcclLikeBackend::Options>(
      std::chrono::milliseconds(200));
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(device.type(), c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<simulated_device::NcclLikeBackend>(
                        ranks_for_test::gloo(store, rank, size), std::move(options)));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  Rank self{rank, TRY(Mesh::replicas(group)), nullptr, device};
  return body(self);
}

class DeviceParity : public DevicePolicies, public ::testing::WithParamInterface<Recipe> {};

TEST_P(DeviceParity, FourDevicesEqualOneProcessorInEveryPolicy) {
  constexpr int steps = 3;
  const auto& [recipe, options, parts] = GetParam();
  const auto expected = alone(options, steps);
  const auto failures = run_on_devices(kRanks, [&](Rank& self) -> Result<void> {
    for (const auto& policy : kPolicies) {
      auto training = TRY(Training::start(self.mesh, policy, options, at::kDouble, self.device));
      for (int step = 0; step < steps; ++step) TRY(training->step(step, parts));
      EXPECT_LT(compare(*training, expected).first, 1e-10) << policy << ", rank " << self.rank;
    }
    return {};
  });
  EXPECT_EQ(failures, "");
}

INSTANTIATE_TEST_SUITE_P(
    All, DeviceParity,
    ::testing::Values(Recipe{"sgd", {.method = Sgd{.momentum = 0.9}, .learning_rate = 0.05}, 3},
                      Recipe{"adamw", {.method = AdamW{}, .learning_rate = 0.01}, 1},
                      Recipe{"clip", {.method = Sgd{}, .learning_rate = 0.2, .clip_norm = 0.1}, 1}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_F(DevicePolicies, AnOptimizerInMainMemoryGivesTheSameResults) {
  constexpr int steps = 3;
  const OptimizerOptions options{.method = AdamW{}, .learning_rate = 0.01, .clip_norm = 0.1};
  const auto expected = alone(options, steps);
  const auto failures = run_on_devices(kRanks, [&](Rank& self) -> Result<void> {
    for (const auto& policy : {"ddp+offload", "zero1+offload", "mics:2+offload", "zero3+offload"}) {
      auto training = TRY(Training::start(self.mesh, policy, options, at::kDouble, self.device));
      for (int step = 0; step < steps; ++step) TRY(training->step(step, 3));
      EXPECT_LT(compare(*training, expected).first, 1e-10) << policy << ", rank " << self.rank;
      EXPECT_TRUE(training->model->units().front().master().is_cpu()) << policy;
    }
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Device, TheHostWaitsOnceAStep) {
  const OptimizerOptions options{.method = AdamW{}, .learning_rate = 0.01};
  const auto failures = run_on_devices(kRanks, [&](Rank& self) -> Result<void> {
    for (const auto& policy : kPolicies) {
      auto training = TRY(Training::start(self.mesh, policy, options, at::kFloat, self.device));
      TRY(training->step(0, 2));  // also checks the order of collectives
      simulated_device::reset_host_waits(self.device.index());
      TRY(training->step(1, 2));
      const auto waits = simulated_device::host_waits(self.device.index());
      EXPECT_EQ(waits.timed, 0) << policy;
      EXPECT_EQ(waits.synchronizes, 0) << policy;
      EXPECT_EQ(waits.reads, 1) << policy << ": the norm, with the checksums";
      EXPECT_EQ(waits.writes, 2) << policy << ": the test's own x and y";
    }
    return {};
  });
  EXPECT_EQ(failures, "");
  // The test's own loss, which has no Meta kernel: nothing of the engine is among them.
  EXPECT_THAT(simulated_device::inline_operators(),
              ::testing::ElementsAre("aten::mse_loss_backward"));
}

// Autograd's accumulation runs on the stream that was current at shard(), the rest on the
// program's.
TEST_F(DevicePolicies, AStreamOfTheProgramGivesTheSameResults) {
  constexpr int steps = 3;
  const OptimizerOptions options{.method = Sgd{.momentum = 0.9}, .learning_rate = 0.05};
  const auto expected = alone(options, steps);
  const auto failures = run_on_devices(kRanks, [&](Rank& self) -> Result<void> {
    for (const auto& policy : {"zero3", "mics:2", "mics:2+recompute"}) {
      auto training = TRY(Training::start(self.mesh, policy, options, at::kDouble, self.device));
      const auto side = simulated_device::new_stream(self.device.index());
      const auto made = simulated_device::current_stream(self.device.index());
      simulated_device::queue_of(side).wait_for(simulated_device::queue_of(made).record());
      const c10::StreamGuard stream(side);
      for (int step = 0; step < steps; ++step) TRY(training->step(step, 3));
      EXPECT_LT(compare(*training, expected).first, 1e-10) << policy << ", rank " << self.rank;
    }
    return {};
  });
  EXPECT_EQ(failures, "");
}

// Rank 1 does not take part in the transfer, as if it were dead.
TEST(Device, AGroupWithATransferThatCannotEndIsLeft) {
  const auto failures = run_on_devices(2, [&](Rank& self) -> Result<void> {
    auto& world = self.mesh.world();
    TRY(world.use_device(self.device));
    const auto numbers = at::ones({8}, at::TensorOptions(self.device));
    TRY(world.all_reduce(numbers, ReduceOp::sum, "the first").wait_on_host());
    if (self.rank == 1) return {};
    auto transfer = world.all_reduce(numbers, ReduceOp::sum, "the second");
    world.leave();
    EXPECT_FALSE(transfer.wait_on_host());
    EXPECT_FALSE(world.all_reduce(numbers, ReduceOp::sum, "the third").wait());
    return {};
  });
  EXPECT_EQ(failures, "");
}

// c10d's watchdog ends a process of NCCL at the group's time-out.
TEST(Device, AWaitEndsBeforeTheTimeOutOfTheGroup) {
  std::promise<void> ended;
  const auto failures = run_as_ranks(
      2,
      [&](Rank& self) -> Result<void> {
        auto& world = self.mesh.world();
        TRY(world.use_device(self.device));
        if (self.rank == 1) {  // lives, and does not take part
          ended.get_future().wait_for(ranks_for_test::kBound);
          return {};
        }
        const auto numbers = at::ones({8}, at::TensorOptions(self.device));
        const auto late = world.all_reduce(numbers, ReduceOp::sum, "the first").wait_on_host();
        EXPECT_THAT(late.error().message, ::testing::HasSubstr("not complete after 180ms"));
        world.leave();
        ended.set_value();
        return {};
      },
      run_rank_with_time_out);
  EXPECT_EQ(failures, "");
}

TEST(Device, PartsOfAGroupAreDestroyedWithTheirOwners) {
  const int before = simulated_device::NcclLikeBackend::living();
  EXPECT_EQ(run_on_devices(kRanks,
                           [&](Rank& self) -> Result<void> {
                             auto mesh = TRY(self.mesh.with_shard_groups(2));
                             EXPECT_EQ(mesh.shard().size(), 2);
                             TRY(mesh.use_device(self.device));
                             const double sum =
                                 TRY(mesh.shard().all_reduce(1, ReduceOp::sum, "a number"));
                             EXPECT_EQ(sum, 2);
                             return {};
                           }),
            "");
  EXPECT_EQ(simulated_device::NcclLikeBackend::living(), before);
}

TEST(Device, AGroupWithoutABackendForItIsRefusedWithWords) {
  const auto failures = run_as_ranks(2, [&](Rank& self) -> Result<void> {
    const auto training =
        Training::start(self.mesh, "ddp", {}, at::kFloat, simulated_device::device(self.rank));
    EXPECT_EQ(training.error().code, Code::invalid);
    EXPECT_NE(training.error().message.find("no backend for it"), std::string::npos);
    return {};
  });
  EXPECT_EQ(failures, "");
}

TEST(Device, AutoCountsWhatIsFreeAndWhatThisProcessHolds) {
  simulated_device::install();
  constexpr std::size_t all = std::size_t{16} << 30;
  constexpr std::size_t free = std::size_t{5} << 30;
  const auto device = simulated_device::device(0);
  const RankPlacement alone_on_host(1);
  simulated_device::set_memory_info(free, all);
  const auto before = memory_per_rank(device, alone_on_host);
  const auto held = at::empty({1 << 20}, at::TensorOptions(at::kFloat).device(device));
  const auto after = memory_per_rank(device, alone_on_host);
  const auto in_use = simulated_device::bytes_in_use(0);
  simulated_device::set_memory_info(all, all);
  EXPECT_EQ(before.value() + 4_MiB, after.value());
  EXPECT_EQ(after.value(), 5_GiB + Bytes(in_use));
}

}  // namespace
}  // namespace lockstep::train::device_test
