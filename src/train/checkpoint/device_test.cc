// Checkpoints of a training on a device, over a group that serves the device only.
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include "train/checkpoint/training_for_test.h"
#include "train/simulated_device/simulated_device.h"
#include "train/simulated_device/stream.h"

namespace lockstep::train::checkpoint_device_test {
namespace {

using layouts_for_test::Folder;
using ranks_for_test::nccl_like;
using ranks_for_test::Rank;
using ranks_for_test::run_as_ranks;
using ranks_for_test::run_on_devices;
using training_for_test::RendezvousStore;
using training_for_test::Training;
namespace fs = std::filesystem;

constexpr int kRanks = 3;

Training training_on(const Rank& self) {
  return Training(self.mesh, 5, {.method = AdamW{}, .learning_rate = 0.05}, self.device);
}

// A group of the same devices, for the checkpointer's messages.
Comm group_of_device(const RendezvousStore& store, const Rank& self) {
  const int ranks = self.mesh.world_size();
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, self.rank, ranks);
  group->setBackend(self.device.type(), c10d::ProcessGroup::BackendType::CUSTOM,
                    nccl_like(store, self.rank, ranks));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  Comm comm(std::move(group), ranks_for_test::kBound);
  EXPECT_TRUE(comm.use_device(self.device));
  return comm;
}

// The values of all of a training's state, in main memory.
std::map<std::string, at::Tensor> values(const Training& run) {
  std::map<std::string, at::Tensor> values;
  for (const auto& each : run.state().tensors) values[each.name] = each.tensor.cpu();
  return values;
}

void expect_equal(const Training& run, const std::map<std::string, at::Tensor>& expected) {
  for (const auto& [name, value] : values(run)) EXPECT_TRUE(value.equal(expected.at(name))) << name;
}

TEST(DeviceCheckpoint, ASavedTrainingContinuesAsIfItHadNotStopped) {
  Folder folder;
  const auto place = c10::make_intrusive<c10d::HashStore>();
  std::array<std::map<std::string, at::Tensor>, kRanks> expected;
  std::array<at::Tensor, kRanks> drawn;
  ASSERT_EQ(run_on_devices(kRanks,
                           [&](Rank& self) -> Result<void> {
                             const auto rank = static_cast<std::size_t>(self.rank);
                             auto run = training_on(self);
                             auto saver = TRY(Checkpointer::open({.folder = folder},
                                                                 group_of_device(place, self)));
                             TRY(training_for_test::train_and_save(run, *saver, 3));
                             drawn[rank] = at::rand({4}, self.device).cpu();
                             TRY(run.train_step());
                             expected[rank] = values(run);
                             return {};
                           }),
            "");
  EXPECT_EQ(run_on_devices(kRanks,
                           [&](Rank& self) -> Result<void> {
                             const auto rank = static_cast<std::size_t>(self.rank);
                             auto run = training_on(self);
                             TRY(run.resume_from(folder));
                             EXPECT_EQ(run.step, 3);
                             EXPECT_TRUE(at::rand({4}, self.device).cpu().equal(drawn[rank]));
                             TRY(run.train_step());
                             expect_equal(run, expected[rank]);
                             return {};
                           }),
            "");
}

TEST(DeviceCheckpoint, IsReadOnTheCpu) {
  Folder folder;
  const auto place = c10::make_intrusive<c10d::HashStore>();
  std::map<std::string, at::Tensor> expected;
  ASSERT_EQ(run_on_devices(kRanks,
                           [&](Rank& self) -> Result<void> {
                             auto run = training_on(self);
                             auto saver = TRY(Checkpointer::open({.folder = folder},
                                                                 group_of_device(place, self)));
                             TRY(training_for_test::train_and_save(run, *saver, 2));
                             if (self.rank == 0) expected = values(run);
                             return {};
                           }),
            "");
  Training alone(Mesh::single(), 5, {.method = AdamW{}, .learning_rate = 0.05});
  ASSERT_TRUE(alone.resume_from(folder));
  expect_equal(alone, expected);
}

// The next step is queued while the copies of the state are: it must not change what they read.
TEST(DeviceCheckpoint, ASaveDoesNotWaitForTheDevice) {
  Folder folder;
  const auto failures = run_on_devices(1, [&](Rank& self) -> Result<void> {
    Training run(Mesh::single(), 40'000, {.method = AdamW{}, .learning_rate = 0.05}, self.device);
    auto saver = TRY(Checkpointer::open({.folder = folder}, Comm()));
    TRY(run.train_step());
    const auto expected = values(run);
    auto state = run.state();
    const auto held = std::make_shared<simulated_device::Event>();
    simulated_device::queue_of(simulated_device::current_stream(self.device.index()))
        .wait_for(held);
    simulated_device::reset_host_waits(self.device.index());
    TRY(saver->save(state));
    run.model->snapshot_copies()->wait();
    for (const auto& each : state.tensors) each.tensor.zero_();
    EXPECT_EQ(simulated_device::host_waits(self.device.index()).all(), 0);
    held->set();
    TRY(saver->finish());
    Training alone(Mesh::single(), 40'000, {.method = AdamW{}, .learning_rate = 0.05});
    TRY(alone.resume_from(folder));
    expect_equal(alone, expected);
    return {};
  });
  EXPECT_EQ(failures, "");
}

}  // namespace
}  // namespace lockstep::train::checkpoint_device_test
