#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>
#include <limits>
#include <thread>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <torch/nn/module.h>
#include <unistd.h>

#include "base/files.h"
#include "base/format.h"
#include "train/checkpoint/checkpointer.h"
#include "train/checkpoint/list.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/read.h"
#include "train/ranks_for_test.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/lockstep-checkpoint-XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  operator const fs::path&() const { return path_; }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

at::Tensor wave(at::IntArrayRef shape, double phase) {
  const auto count = c10::multiply_integers(shape);
  return at::sin(at::arange(count, at::kFloat) * 1.7 + phase).view(shape);
}

class Net : public torch::nn::Module {
 public:
  explicit Net(std::int64_t width = 5) {
    first = register_parameter("first", wave({width, 3}, 0.1));
    last = register_parameter("last", wave({1, width}, 0.2));
    steps = register_buffer("steps", at::zeros({1}, at::kLong));
  }
  at::Tensor loss(const std::vector<std::int64_t>& samples) {
    steps.add_(1);
    at::Tensor sum;
    for (auto sample : samples) {
      const auto x = wave({1, 3}, static_cast<double>(sample));
      const auto one = at::linear(at::tanh(at::linear(x, first)), last).square().mean();
      sum = sum.defined() ? sum + one : one;
    }
    return sum / static_cast<double>(samples.size());
  }
  at::Tensor first, last, steps;
};

// A training run with everything that a checkpoint holds.
struct Training {
  explicit Training(Mesh mesh = Mesh::single(), std::int64_t width = 5,
                    const OptimizerOptions& options = {.learning_rate = 0.05})
      : net(width),
        model(shard(net, mesh).value()),
        optimizer(Optimizer::create(*model, options).value()),
        sampler(Sampler::create(100, 4, 1).value()) {}

  Result<double> train_step() {
    auto& mesh = model->mesh();
    const auto loss = net.loss(TRY(sampler.next(mesh.rank(), mesh.world_size())));
    TRY(model->backward(loss, Sync::now));
    TRY(model->finish_gradients());
    TRY(optimizer->step());
    ++step;
    return loss.item<double>();
  }
  TrainingState state() const { return state_of(step, *model, *optimizer, sampler); }
  Result<void> resume_from(const fs::path& folder) {
    step = TRY(resume(folder, *model, *optimizer, sampler));
    return {};
  }

  Net net;
  std::unique_ptr<ShardedModel> model;
  std::unique_ptr<Optimizer> optimizer;
  Sampler sampler;
  std::int64_t step = 0;
};

Result<void> train_and_save(Training& run, Checkpointer& checkpoints, int steps) {
  for (int i = 0; i < steps; ++i) {
    TRY(run.train_step());
    TRY(checkpoints.save(run.state()));
  }
  return checkpoints.finish();
}

// A folder with steps 1, 2 and 3.
void three_checkpoints(const fs::path& folder) {
  Training run;
  auto checkpoints = Checkpointer::open({.folder = folder, .epoch = 1}).value();
  ASSERT_TRUE(train_and_save(run, *checkpoints, 3));
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Checkpoint, ResumingGivesTheSameBitsAsNeverHavingStopped) {
  Folder folder;
  Training whole;
  {
    auto checkpoints = Checkpointer::open({.folder = folder}).value();
    ASSERT_TRUE(train_and_save(whole, *checkpoints, 3));
  }
  Training resumed;
  ASSERT_TRUE(resumed.resume_from(folder));
  EXPECT_EQ(resumed.step, 3);
  EXPECT_EQ(resumed.net.steps.item<std::int64_t>(), 3);
  EXPECT_EQ(resumed.optimizer->steps(), 3);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(whole.train_step().value(), resumed.train_step().value()) << "step " << i;
  EXPECT_TRUE(whole.net.first.equal(resumed.net.first));
}

TEST(Checkpoint, ManyRanksResumeWhatRankZeroWrote) {
  Folder folder;
  three_checkpoints(folder);
  const auto failures =
      ranks_for_test::as_ranks(2, [&](ranks_for_test::Rank& self) -> Result<void> {
        Training run(self.mesh);
        TRY(run.resume_from(folder));
        EXPECT_EQ(run.step, 3);
        EXPECT_EQ(run.sampler.state().cursor, 12);
        TRY(run.train_step());
        return {};
      });
  EXPECT_EQ(failures, "");
}

TEST(Checkpoint, AnEmptyFolderMeansTheBeginning) {
  Folder folder;
  Training run;
  ASSERT_TRUE(run.resume_from(folder / "not there"));
  EXPECT_EQ(run.step, 0);
}

TEST(Checkpoint, OnlyTheNewestAreKeptAndNothingElseIsLeft) {
  Folder folder;
  Training run;
  auto checkpoints = Checkpointer::open({.folder = folder, .epoch = 4, .keep = 2}).value();
  ASSERT_TRUE(train_and_save(run, *checkpoints, 5));
  EXPECT_EQ(names_in(folder),
            (std::vector<std::string>{".lock", "EPOCH", "step-00000004", "step-00000005"}));
  EXPECT_EQ(names_in(folder / "step-00000005"),
            (std::vector<std::string>{"manifest.json", "rank-0000.bin"}));
  EXPECT_EQ(read_file(folder / "EPOCH").value(), "4\n");
}

TEST(Checkpoint, EachSaveIsToldWithItsPath) {
  Folder folder;
  std::vector<fs::path> told;
  CheckpointOptions options{.folder = folder};
  options.saved = [&](std::int64_t, const fs::path& path) { told.push_back(path); };
  Training run;
  auto checkpoints = Checkpointer::open(options).value();
  ASSERT_TRUE(train_and_save(run, *checkpoints, 2));
  EXPECT_EQ(told, (std::vector<fs::path>{folder / "step-00000001", folder / "step-00000002"}));
}

// What can become of a checkpoint when a host dies or a disk errs.
struct Damage {
  const char* name;
  std::function<void(const fs::path& checkpoint)> inflict;
};

void replace_in(const fs::path& file, const std::string& from, const std::string& to) {
  auto words = read_file(file).value();
  const auto at = words.find(from);
  ASSERT_NE(at, std::string::npos);
  words.replace(at, from.size(), to);
  ASSERT_TRUE(write_file(file, words));
}

class Torn : public ::testing::TestWithParam<Damage> {};

TEST_P(Torn, IsNeverLoadedAndTheOneBeforeIsFound) {
  Folder folder;
  three_checkpoints(folder);
  GetParam().inflict(folder / "step-00000003");
  EXPECT_FALSE(SavedCheckpoint::open(folder / "step-00000003"));
  EXPECT_EQ(newest_checkpoint(folder).value().manifest().step, 2);
  Training run;
  ASSERT_TRUE(run.resume_from(folder));
  EXPECT_EQ(run.step, 2);
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoint, Torn,
    ::testing::Values(
        Damage{"truncated", [](auto& path) { fs::resize_file(path / "rank-0000.bin", 100); }},
        Damage{"grown",
               [](auto& path) { std::ofstream(path / "rank-0000.bin", std::ios::app) << "x"; }},
        Damage{"flipped",
               [](auto& path) {
                 std::fstream file(path / "rank-0000.bin", std::ios::in | std::ios::out);
                 file.seekg(70);
                 const char byte = static_cast<char>(file.get() ^ 1);
                 file.seekp(70);
                 file.put(byte);
               }},
        Damage{"without_data", [](auto& path) { fs::remove(path / "rank-0000.bin"); }},
        Damage{"without_manifest", [](auto& path) { fs::remove(path / "manifest.json"); }},
        Damage{"with_half_a_manifest",
               [](auto& path) { fs::resize_file(path / "manifest.json", 300); }},
        Damage{"with_data_elsewhere",
               [](auto& path) {
                 fs::rename(path / "rank-0000.bin", path / "data");
                 fs::create_symlink(path / "data", path / "rank-0000.bin");
               }},
        Damage{
            "of_another_step",
            [](auto& path) { replace_in(path / "manifest.json", "\"step\": 3", "\"step\": 2"); }},
        Damage{"with_a_way_out",
               [](auto& path) {
                 replace_in(path / "manifest.json", "rank-0000.bin", "../../passwd");
               }}),
    [](const auto& one) { return one.param.name; });

// A manifest with one tensor, which each case spoils in one place.
Manifest good_manifest() {
  Manifest manifest;
  manifest.optimizer = "sgd";
  manifest.files = {{"rank-0000.bin", 100, std::string(32, '0')}};
  manifest.tensors = {{"parameter/a", "float32", {5, 2}, "rank-0000.bin", 60, 40}};
  return manifest;
}

TEST(Manifest, WhatDoesNotFitTogetherIsRefused) {
  EXPECT_TRUE(parse_manifest(text(good_manifest())));
  const std::vector<std::function<void(Manifest&)>> spoils{
      [](auto& m) { m.version = 2; },
      [](auto& m) { m.step = -1; },
      [](auto& m) { m.sampler_cursor = -1; },
      [](auto& m) { m.files[0].size = -1; },
      [](auto& m) { m.files.push_back(m.files[0]); },
      [](auto& m) { m.files[0].name = "rank-000x.bin"; },
      [](auto& m) { m.tensors[0].file = "rank-0001.bin"; },
      [](auto& m) { m.tensors[0].offset = 61; },
      [](auto& m) { m.tensors[0].offset = -1; },
      [](auto& m) { m.tensors[0].offset = std::numeric_limits<std::int64_t>::max(); },
      [](auto& m) { m.tensors[0].size = 39; },
      [](auto& m) { m.tensors[0].type = "float128"; },
      [](auto& m) { m.tensors[0].shape = {-5, -2}; },
      [](auto& m) { m.tensors[0].shape = {1L << 31, 1L << 31, 1L << 31}; },
      [](auto& m) { m.tensors.push_back(m.tensors[0]); }};
  for (std::size_t i = 0; i < spoils.size(); ++i) {
    auto manifest = good_manifest();
    spoils[i](manifest);
    const auto parsed = parse_manifest(text(manifest));
    ASSERT_FALSE(parsed) << "case " << i;
    EXPECT_EQ(parsed.error().code, Code::corrupt) << "case " << i;
  }
}

TEST(Checkpoint, AStaleWriterIsRefusedAndWritesNothing) {
  Folder folder;
  Training run;
  auto old = Checkpointer::open({.folder = folder, .epoch = 1}).value();
  ASSERT_TRUE(train_and_save(run, *old, 1));
  const auto taken = Checkpointer::open({.folder = folder, .epoch = 2}).value();
  ASSERT_TRUE(run.train_step());
  ASSERT_TRUE(old->save(run.state()));
  const auto outcome = old->finish();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::denied);
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{".lock", "EPOCH", "step-00000001"}));
  EXPECT_EQ(Checkpointer::open({.folder = folder, .epoch = 1}).error().code, Code::denied);
}

TEST(Checkpoint, AFenceTellsWhenItHasBeenOvertaken) {
  Folder folder;
  const auto fence = Fence::claim(folder, 1).value();
  ASSERT_TRUE(fence.check());
  ASSERT_EQ(Fence::claim(folder, std::nullopt).value().epoch(), 2);
  EXPECT_EQ(fence.check().error().code, Code::denied);
}

TEST(Checkpoint, TheFolderIsNotClaimedWhileItsLockIsHeld) {
  Folder folder;
  const auto fence = Fence::claim(folder, 1).value();
  std::atomic<bool> released = false;
  auto lock = fence.lock().value();
  std::thread other([&] {
    EXPECT_EQ(Fence::claim(folder, 2).value().epoch(), 2);
    EXPECT_TRUE(released);
  });
  EXPECT_TRUE(fence.check());
  released = true;
  lock.reset();
  other.join();
}

TEST(Checkpoint, LeftoversOfDeadWritersAreCleanedUp) {
  Folder folder;
  ASSERT_TRUE(make_folders(folder / ".step-00000007.1.tmp"));
  const auto opened = Checkpointer::open({.folder = folder, .epoch = 2}).value();
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{".lock", "EPOCH"}));
}

TEST(Checkpoint, AFolderThatCannotBeWrittenIsNamedAndTheOldOnesStay) {
  Folder home;
  const auto folder = home / "run";
  Training run;
  auto checkpoints = Checkpointer::open({.folder = folder, .epoch = 1}).value();
  ASSERT_TRUE(train_and_save(run, *checkpoints, 1));
  ASSERT_TRUE(run.train_step());
  // The tests may run as root, whom permissions do not stop; a file in the folder's place does.
  fs::rename(folder, home / "moved");
  ASSERT_TRUE(write_file(folder, "not a folder"));
  ASSERT_TRUE(checkpoints->save(run.state()));
  const auto outcome = checkpoints->finish();
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().message.find(folder.string()), std::string::npos)
      << outcome.error().message;
  EXPECT_EQ(newest_checkpoint(home / "moved").value().manifest().step, 1);
}

TEST(Checkpoint, AFullDiskIsAnErrorAndLeavesTheOneBefore) {
  // The limit on a file's size stands for the disk's: write(2) fails in the same place.
  Folder folder;
  Training run(Mesh::single(), 4096);
  auto checkpoints = Checkpointer::open({.folder = folder, .epoch = 1}).value();
  ASSERT_TRUE(train_and_save(run, *checkpoints, 1));
  ASSERT_TRUE(run.train_step());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{64 << 10, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_TRUE(checkpoints->save(run.state()));
  const auto outcome = checkpoints->finish();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().message.find("step-00000002"), std::string::npos)
      << outcome.error().message;
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{".lock", "EPOCH", "step-00000001"}));
  EXPECT_EQ(newest_checkpoint(folder).value().manifest().step, 1);
  ASSERT_TRUE(checkpoints->save(run.state()));
  EXPECT_TRUE(checkpoints->finish());
}

TEST(Checkpoint, AnotherShapeIsRefusedByNameAndNothingIsTouched) {
  Folder folder;
  three_checkpoints(folder);
  Training wider(Mesh::single(), 6);
  const auto before = wider.net.first.detach().clone();
  const auto resumed = wider.resume_from(folder);
  ASSERT_FALSE(resumed);
  EXPECT_EQ(resumed.error().code, Code::invalid);
  EXPECT_NE(resumed.error().message.find(
                "parameter/first has shape [5, 3] in the checkpoint and [6, 3] in the model"),
            std::string::npos)
      << resumed.error().message;
  EXPECT_TRUE(before.equal(wider.net.first));
}

TEST(Checkpoint, AnotherOptimizerOrTypeIsRefused) {
  Folder folder;
  three_checkpoints(folder);
  Training sgd(Mesh::single(), 5, {.method = Sgd{.momentum = 0.9}});
  EXPECT_EQ(sgd.resume_from(folder).error().code, Code::invalid);
  const auto checkpoint = newest_checkpoint(folder).value();
  EXPECT_NE(checkpoint.read({{"parameter/first", at::zeros({5, 3}, at::kDouble)}})
                .error()
                .message.find("is float32 in the checkpoint and float64 in the model"),
            std::string::npos);
  EXPECT_EQ(checkpoint.read({{"parameter/none", at::zeros({1})}}).error().code, Code::invalid);
}

TEST(Checkpoint, TheSnapshotIsOfTheMomentOfTheCall) {
  Folder folder;
  Training run;
  ASSERT_TRUE(run.train_step());
  const auto before = run.net.first.detach().clone();
  auto checkpoints = Checkpointer::open({.folder = folder}).value();
  const auto stall = checkpoints->save(run.state());
  ASSERT_TRUE(stall);
  EXPECT_GE(stall->count(), 0);
  ASSERT_TRUE(run.train_step());
  ASSERT_TRUE(checkpoints->finish());
  auto saved = at::zeros({5, 3});
  ASSERT_TRUE(newest_checkpoint(folder).value().read({{"parameter/first", saved}}));
  EXPECT_TRUE(saved.equal(before));
}

}  // namespace
}  // namespace lockstep
