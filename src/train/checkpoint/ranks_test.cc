// Several ranks write one checkpoint, and other numbers of ranks resume from it.

#include <map>
#include <set>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "base/format.h"
#include "base/mutex.h"
#include "train/checkpoint/load.h"
#include "train/checkpoint/training_for_test.h"

namespace lockstep::train {
namespace {

using namespace training_for_test;
using layouts_for_test::Folder;
using layouts_for_test::names_in;
using ranks_for_test::Rank;
using ranks_for_test::run_as_ranks;
namespace fs = std::filesystem;

RendezvousStore meeting_place() { return c10::make_intrusive<c10d::HashStore>(); }

// Trains so many steps as replicas, from the folder's checkpoint, and saves after each.
std::string train_replicas(const fs::path& folder, int ranks, int steps,
                           const std::function<void(const Training&)>& see) {
  const auto place = meeting_place();
  return run_as_ranks(ranks, [&](Rank& self) -> Result<void> {
    Training run(self.mesh);
    auto checkpoints = TRY(Checkpointer::open({.folder = folder}, apart(place, self)));
    TRY(run.resume_from(folder));
    for (int i = 0; i < steps; ++i) {
      TRY(run.train_step());
      see(run);
      TRY(checkpoints->save(run.state()));
    }
    return checkpoints->finish();
  });
}

TEST(Ranks, ReplicasShareTheWritingAndEverySampleIsSeenOnceAcrossAResize) {
  Folder folder;
  Mutex mutex;
  std::vector<std::int64_t> seen;
  const auto see = [&](const Training& run) {
    const Lock lock(mutex);
    seen.insert(seen.end(), run.samples.begin(), run.samples.end());
  };
  ASSERT_EQ(train_replicas(folder, 3, 3, see), "");
  const auto checkpoint = newest_checkpoint(folder).value();
  ASSERT_EQ(names_in(checkpoint.path()),
            (std::vector<std::string>{"manifest.json", "rank-0000.bin", "rank-0001.bin",
                                      "rank-0002.bin"}));
  // Each rank's random state is its own; each has a third of the rest, up to one aligned slice.
  const auto& files = checkpoint.manifest().files;
  for (const auto& file : files) EXPECT_LT(std::abs(file.size - files[0].size), 200) << file.name;
  ASSERT_EQ(train_replicas(folder, 4, 2, see), "");
  ASSERT_EQ(train_replicas(folder, 2, 3, see), "");
  EXPECT_EQ(newest_checkpoint(folder).value().manifest().step, 8);
  EXPECT_EQ(seen.size(), 96u);
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 96u) << "of the first epoch's 100 samples";
}

TEST(Ranks, AfterAResizeTheStateIsTheSameBits) {
  Folder folder;
  ASSERT_EQ(train_replicas(folder, 3, 2, [](const Training&) {}), "");
  Training alone;
  ASSERT_TRUE(alone.resume_from(folder));
  const auto failures = run_as_ranks(2, [&](Rank& self) -> Result<void> {
    Training run(self.mesh);
    TRY(run.resume_from(folder));
    const auto ours = run.state(), theirs = alone.state();
    EXPECT_EQ(ours.step, 2);
    EXPECT_EQ(ours.optimizer_steps, theirs.optimizer_steps);
    EXPECT_EQ(ours.sampler, theirs.sampler);
    for (std::size_t i = 0; i < ours.tensors.size(); ++i)
      EXPECT_TRUE(ours.tensors[i].tensor.equal(theirs.tensors[i].tensor)) << ours.tensors[i].name;
    return {};
  });
  EXPECT_EQ(failures, "");
}

// A tensor of 11 elements, of which each rank holds a shard: with 4 ranks 3, 3, 3, 2 and with 8
// ranks the last two nothing.
TrainingState sharded_state(int rank, int ranks, float value) {
  const auto held = layouts_for_test::shard_of({"", {}, {11}, 0, 11}, rank, ranks);
  const auto elements = held.end - held.begin;
  TrainingState state;
  state.step = 1;
  state.optimizer = "sgd";
  state.tensors = {{"parameter/w", {11}, {held.begin, held.end}, at::full({elements}, value)},
                   {"buffer/n", {}, {0, 1}, at::full({1}, rank, at::kLong), false}};
  if (value == 0) return state;
  state.tensors[0].tensor.copy_(at::arange(held.begin, held.end) + value);
  return state;
}

TEST(Ranks, ShardsOfAnyNumberAreReadByAnyOther) {
  for (const int writers : {1, 4, 8}) {
    Folder folder;
    const auto place = meeting_place();
    ASSERT_EQ(run_as_ranks(writers,
                           [&](Rank& self) -> Result<void> {
                             auto saver =
                                 TRY(Checkpointer::open({.folder = folder}, apart(place, self)));
                             TRY(saver->save(sharded_state(self.rank, writers, 100)));
                             return saver->finish();
                           }),
              "");
    const auto checkpoint = newest_checkpoint(folder).value();
    for (const int readers : {1, 3, 8})
      for (int rank = 0; rank < readers; ++rank) {
        const auto state = sharded_state(rank, readers, 0);
        ASSERT_TRUE(check_fits(checkpoint.manifest(), state.tensors));
        ASSERT_TRUE(load(checkpoint, state.tensors));
        const auto expected = sharded_state(rank, readers, 100);
        EXPECT_TRUE(state.tensors[0].tensor.equal(expected.tensors[0].tensor))
            << writers << " to " << readers << ", rank " << rank;
        EXPECT_EQ(state.tensors[1].tensor.item<std::int64_t>(), 0) << "rank 0's";
      }
  }
}

// Three blocks of odd sizes, the second's bias frozen.
struct Divided {
  Divided(Mesh mesh, const std::string& policy)
      : net(torch::nn::Linear(3, 5), torch::nn::Linear(5, 7), torch::nn::Linear(7, 1)),
        sampler(Sampler::create(100, 12, 1).value()) {
    net->at<torch::nn::LinearImpl>(1).bias.set_requires_grad(false);
    const auto sizes = parse_policy(policy, mesh.world_size()).value();
    model = shard(*net, std::move(mesh), sizes).value();
    optimizer = Optimizer::create(*model, {.learning_rate = 0.05}).value();
  }
  Result<void> train_step() {
    TRY(model->backward(model->forward(wave({4, 3}, 0.3)).square().mean(), Sync::now));
    TRY(model->finish_gradients());
    TRY(optimizer->step());
    return {};
  }
  TrainingState state(std::int64_t step) const {
    return state_of(step, *model, *optimizer, sampler);
  }

  torch::nn::Sequential net;
  Sampler sampler;
  std::unique_ptr<ShardedModel> model;
  std::unique_ptr<Optimizer> optimizer;
};

using Whole = std::map<std::string, at::Tensor>;  // flat

// Compares this rank's part with the whole.
void expect_same(const TrainingState& state, const Whole& expected, const std::string& who) {
  for (const auto& [name, shape, owned, tensor, equal, steady] : state.tensors)
    EXPECT_TRUE(tensor.equal(expected.at(name).narrow(0, owned.begin, owned.size())))
        << who << ": " << name;
}

// From one process to each layout and from that to one process again: so from each to each.
TEST(Ranks, EveryPolicyAtEverySizeGoesOnFromEveryOtherBitForBit) {
  Folder folder;
  Whole expected;
  ASSERT_EQ(run_as_ranks(1,
                         [&](Rank& self) -> Result<void> {
                           Divided run(self.mesh, "ddp");
                           for (int i = 0; i < 2; ++i) TRY(run.train_step());
                           for (const auto& one : run.state(2).tensors)
                             expected[one.name] = one.tensor.clone();
                           auto saver = TRY(Checkpointer::open({.folder = folder / "first"},
                                                               apart(meeting_place(), self)));
                           TRY(saver->save(run.state(2)));
                           return saver->finish();
                         }),
            "");
  EXPECT_EQ(expected.size(), 6u + 2 * 5u) << "two moments of each parameter but the frozen one";
  const std::vector<std::pair<int, std::string>> layouts = {
      {2, "ddp"},   {3, "zero1"},  {3, "zero2"},  {2, "zero3"},     {3, "zero3"},
      {4, "zero3"}, {4, "mics:2"}, {6, "mics:2"}, {4, "mics:2+opt"}};
  for (const auto& [ranks, policy] : layouts) {
    const auto who = format("{} ranks, {}", ranks, policy);
    const auto place = meeting_place();
    const auto copy = folder / who;
    ASSERT_EQ(run_as_ranks(
                  ranks,
                  [&](Rank& self) -> Result<void> {
                    Divided run(self.mesh, policy);
                    EXPECT_EQ(
                        TRY(resume(folder / "first", *run.model, *run.optimizer, run.sampler)), 2);
                    expect_same(run.state(2), expected, who);
                    auto saver = TRY(Checkpointer::open({.folder = copy}, apart(place, self)));
                    TRY(saver->save(run.state(3)));
                    return saver->finish();
                  }),
              "")
        << who;
    Divided alone(Mesh::single(), "ddp");
    ASSERT_EQ(resume(copy, *alone.model, *alone.optimizer, alone.sampler).value(), 3) << who;
    expect_same(alone.state(3), expected, "from " + who);
  }
}

TEST(Ranks, IfOneCannotWriteAllAreToldAndTheNextSaveSucceeds) {
  Folder folder;
  const auto place = meeting_place();
  const auto failures = run_as_ranks(3, [&](Rank& self) -> Result<void> {
    auto saver = TRY(Checkpointer::open({.folder = folder}, apart(place, self)));
    auto state = sharded_state(self.rank, 3, 100);
    TRY(saver->save(state));
    TRY(saver->finish());
    state.step = 2;
    auto spoilt = state;
    if (self.rank == 1) spoilt.tensors.pop_back();
    TRY(saver->save(spoilt));
    const auto failed = saver->finish();
    EXPECT_FALSE(failed);
    if (!failed) {
      EXPECT_NE(failed.error().message.find("step-00000002: rank 1: the state has other tensors"),
                std::string::npos)
          << failed.error().message;
    }
    TRY(saver->save(state));
    return saver->finish();
  });
  EXPECT_EQ(failures, "");
  EXPECT_EQ(names_in(folder),
            (std::vector<std::string>{".lock", "WRITER", "step-00000001", "step-00000002"}));
}

// --- Each host has a folder of its own ---

// Ranks 0 and 1 are on host a, ranks 2 and 3 on host b.
struct TwoHosts {
  explicit TwoHosts(const fs::path& root) : a(root / "a"), b(root / "b") {}
  const fs::path& folder_of(int rank) const { return rank < 2 ? a : b; }
  CheckpointOptions options_of(int rank) const {
    return {.folder = folder_of(rank), .host = rank < 2 ? "a" : "b"};
  }
  const fs::path a, b;
};

TEST(Ranks, EachHostKeepsTheFilesOfItsRanksAndTogetherTheyAreTheCheckpoint) {
  Folder folder;
  const TwoHosts hosts(folder / "");
  const auto place = meeting_place();
  ASSERT_EQ(run_as_ranks(4,
                         [&](Rank& self) -> Result<void> {
                           auto saver = TRY(
                               Checkpointer::open(hosts.options_of(self.rank), apart(place, self)));
                           auto state = sharded_state(self.rank, 4, 100);
                           for (state.step = 1; state.step <= 5; ++state.step)
                             TRY(saver->save(state));
                           return saver->finish();
                         }),
            "");
  const std::vector<std::string> kept = {".lock", "WRITER", "step-00000003", "step-00000004",
                                         "step-00000005"};
  EXPECT_EQ(names_in(hosts.a), kept);
  EXPECT_EQ(names_in(hosts.b), kept);
  const fs::path newest = hosts.a / "step-00000005", other = hosts.b / "step-00000005";
  EXPECT_EQ(names_in(newest),
            (std::vector<std::string>{"manifest.json", "rank-0000.bin", "rank-0001.bin"}));
  EXPECT_EQ(names_in(other),
            (std::vector<std::string>{"manifest.json", "rank-0002.bin", "rank-0003.bin"}));
  EXPECT_EQ(read_file(newest / "manifest.json").value(),
            read_file(other / "manifest.json").value());
  EXPECT_FALSE(newest_checkpoint(hosts.a)) << "files are on the other host";

  for (const int rank : {2, 3}) fs::copy(other / data_file_name(rank), newest);
  const auto whole = newest_checkpoint(hosts.a).value();
  EXPECT_TRUE(whole.verify());
  const auto state = sharded_state(0, 1, 0);
  ASSERT_TRUE(load(whole, state.tensors));
  EXPECT_TRUE(state.tensors[0].tensor.equal(sharded_state(0, 1, 100).tensors[0].tensor));
}

TEST(Ranks, ACheckpointThatOneHostCannotKeepIsNone) {
  Folder folder;
  const TwoHosts hosts(folder / "");
  const auto place = meeting_place();
  const auto failures = run_as_ranks(4, [&](Rank& self) -> Result<void> {
    auto saver = TRY(Checkpointer::open(hosts.options_of(self.rank), apart(place, self)));
    auto state = sharded_state(self.rank, 4, 100);
    TRY(saver->save(state));
    TRY(saver->finish());
    // Another writer has taken the folder of host b.
    if (self.rank == 2) fs::remove(hosts.b / "WRITER");
    state.step = 2;
    TRY(saver->save(state));
    const auto failed = saver->finish();
    EXPECT_FALSE(failed) << "rank " << self.rank;
    return {};
  });
  EXPECT_EQ(failures, "");
  EXPECT_FALSE(fs::exists(hosts.a / "step-00000002"));
  EXPECT_FALSE(fs::exists(hosts.b / "step-00000002"));
}

TEST(Ranks, AFolderIsOfAHostIfTheRunSaysSo) {
  Environment environment = {{"LOCKSTEP_CHECKPOINT_DIR", "/runs/1/checkpoints"},
                             {"LOCKSTEP_HOST_ID", "gpu1"}};
  EXPECT_EQ(host_of_folder("/runs/1/checkpoints", environment), "");
  environment["LOCKSTEP_HOST_CHECKPOINTS"] = "1";
  EXPECT_EQ(host_of_folder("/runs/1/./checkpoints", environment), "gpu1");
  EXPECT_EQ(host_of_folder("/data/other", environment), "");
}

TEST(Ranks, IfOneFindsItsPartDamagedAllGoBackToTheSameCheckpoint) {
  Folder folder;
  ASSERT_EQ(train_replicas(folder, 2, 2, [](const Training&) {}), "");
  const auto file = folder / "step-00000002" / "rank-0001.bin";
  auto bytes = read_file(file).value();
  bytes[0] = static_cast<char>(bytes[0] ^ 1);
  ASSERT_TRUE(write_file(file, bytes));
  EXPECT_EQ(train_replicas(folder, 2, 1, [](const Training& run) { EXPECT_EQ(run.step, 2); }), "");
}

}  // namespace
}  // namespace lockstep::train
