#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <future>

#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/format.h"
#include "base/os/files.h"
#include "train/checkpoint/format/import_export.h"
#include "train/checkpoint/load.h"
#include "train/checkpoint/training_for_test.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace training_for_test;
using layouts_for_test::Folder;
using layouts_for_test::names_in;
namespace fs = std::filesystem;

Writer attempt(std::int64_t number) { return {.run = "demo/1", .attempt = number}; }

// A folder with steps 1, 2 and 3.
void three_checkpoints(const fs::path& folder) {
  Training run;
  auto checkpoints = Checkpointer::open({.folder = folder, .writer = attempt(1)}).value();
  ASSERT_TRUE(train_and_save(run, *checkpoints, 3));
}

void flip(const fs::path& path) {
  auto bytes = read_file(path).value();
  bytes[0] = static_cast<char>(bytes[0] ^ 1);
  ASSERT_TRUE(write_file(path, bytes));
}

TEST(Checkpoint, ResumingGivesTheSameBitsAsNeverHavingStopped) {
  Folder folder;
  Training unbroken;
  {
    auto checkpoints = Checkpointer::open({.folder = folder}).value();
    ASSERT_TRUE(train_and_save(unbroken, *checkpoints, 3));
  }
  const auto drawn = at::rand({4});
  Training resumed;
  ASSERT_TRUE(resumed.resume_from(folder));
  EXPECT_TRUE(at::rand({4}).equal(drawn)) << "the random generator goes on, too";
  EXPECT_EQ(resumed.step, 3);
  EXPECT_EQ(resumed.net.steps.item<std::int64_t>(), 3);
  EXPECT_EQ(resumed.optimizer->steps(), 3);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(unbroken.train_step().value(), resumed.train_step().value()) << "step " << i;
  EXPECT_TRUE(unbroken.net.first.equal(resumed.net.first));
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
  auto checkpoints =
      Checkpointer::open({.folder = folder, .writer = attempt(4), .keep = 2}).value();
  ASSERT_TRUE(train_and_save(run, *checkpoints, 5));
  EXPECT_EQ(names_in(folder),
            (std::vector<std::string>{".lock", "WRITER", "step-00000004", "step-00000005"}));
  EXPECT_EQ(names_in(folder / "step-00000005"),
            (std::vector<std::string>{"manifest.json", "rank-0000.bin"}));
  EXPECT_EQ(newest_checkpoint(folder).value().manifest().epoch, 4);
}

TEST(Checkpoint, EachSaveIsToldWithItsPath) {
  Folder folder;
  std::vector<fs::path> told;
  CheckpointOptions options{.folder = folder};
  options.on_saved = [&](std::int64_t, const fs::path& path) { told.push_back(path); };
  Training run;
  auto checkpoints = Checkpointer::open(options).value();
  ASSERT_TRUE(train_and_save(run, *checkpoints, 2));
  EXPECT_EQ(told, (std::vector<fs::path>{folder / "step-00000001", folder / "step-00000002"}));
}

// At exit, a process destroys them while Python still gives its lock to this thread.
TEST(Checkpoint, ItsFunctionsAreDestroyedWithItAndNotLaterByTheThreadThatSaves) {
  Folder folder;
  Training run;
  for (int i = 0; i < 100; ++i) {
    const auto held = std::make_shared<int>(i);
    CheckpointOptions options{.folder = folder};
    options.on_saved = [held](std::int64_t, const fs::path&) {};
    auto checkpoints = Checkpointer::open(options).value();
    ASSERT_TRUE(train_and_save(run, *checkpoints, 1));
    options.on_saved = nullptr;
    checkpoints.reset();
    ASSERT_EQ(held.use_count(), 1) << "save " << i;
  }
}

TEST(Checkpoint, IfTheNewestIsDamagedTheOneBeforeIsTaken) {
  Folder folder;
  three_checkpoints(folder);
  flip(folder / "step-00000003" / "rank-0000.bin");
  Training run;
  ASSERT_TRUE(run.resume_from(folder));
  EXPECT_EQ(run.step, 2);
  EXPECT_EQ(run.net.steps.item<std::int64_t>(), 2);
}

TEST(Checkpoint, IfAllAreDamagedTheTrainingDoesNotBeginAnewUnasked) {
  Folder folder;
  three_checkpoints(folder);
  flip(folder / "step-00000003" / "rank-0000.bin");
  flip(folder / "step-00000002" / "manifest.json");
  fs::remove(folder / "step-00000001" / "rank-0000.bin");
  Training run;
  const auto resumed = run.resume_from(folder);
  ASSERT_FALSE(resumed);
  EXPECT_EQ(resumed.error().code, Code::corrupt);
  for (const auto* named : {"step-00000003: rank-0000.bin was altered", "step-00000002",
                            "step-00000001", "move them away"})
    EXPECT_NE(resumed.error().message.find(named), std::string::npos) << resumed.error().message;
}

TEST(Checkpoint, AStaleWriterIsRefusedAndLeavesNothing) {
  Folder folder;
  Training run;
  auto old = Checkpointer::open({.folder = folder, .writer = attempt(1)}).value();
  ASSERT_TRUE(train_and_save(run, *old, 1));
  const CheckpointOptions later{
      .folder = folder, .writer = attempt(2), .claim_time = ClaimTime::at_open};
  const auto taken = Checkpointer::open(later).value();
  ASSERT_TRUE(run.train_step());
  ASSERT_TRUE(old->save(run.state()));
  const auto outcome = old->finish();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::denied);
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{".lock", "WRITER", "step-00000001"}));
  auto earlier = later;
  earlier.writer = attempt(1);
  EXPECT_EQ(Checkpointer::open(earlier).error().code, Code::denied);
}

TEST(Checkpoint, AReaderBesideALivingWriterTakesNothing) {
  Folder folder;
  Training run;
  auto writing = Checkpointer::open({.folder = folder, .writer = attempt(1)}).value();
  ASSERT_TRUE(train_and_save(run, *writing, 1));
  const auto names = names_in(folder);
  Training evaluated;
  for (const auto claiming : {ClaimTime::at_save, ClaimTime::never}) {
    auto reading = Checkpointer::open({.folder = folder, .claim_time = claiming}).value();
    ASSERT_TRUE(evaluated.resume_from(folder));
    EXPECT_EQ(evaluated.step, 1);
    EXPECT_EQ(names_in(folder), names);
  }
  auto reading = Checkpointer::open({.folder = folder, .claim_time = ClaimTime::never}).value();
  EXPECT_NE(reading->save(evaluated.state()).error().message.find("opened for reading"),
            std::string::npos);
  ASSERT_TRUE(train_and_save(run, *writing, 1));
  EXPECT_EQ(newest_checkpoint(folder).value().manifest().step, 2);
}

TEST(Checkpoint, ReadingMakesNoFolder) {
  Folder home;
  ASSERT_TRUE(Checkpointer::open({.folder = home / "run"}));
  EXPECT_EQ(names_in(home), std::vector<std::string>{});
}

TEST(Checkpoint, ASaveBesideAnotherRunThatWritesIsRefusedAndTriedAgain) {
  Folder folder;
  FenceOptions other{.writer = {.run = "default/11", .attempt = 1}};
  auto fence = std::optional(Fence::claim(folder, other).value());
  Training run;
  ASSERT_TRUE(run.train_step());
  auto late = Checkpointer::open({.folder = folder, .writer = {.run = "default/12"}}).value();
  const auto refused = late->save(run.state());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::already_exists);
  EXPECT_NE(refused.error().message.find("default/11 (attempt 1, on "), std::string::npos);
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{".lock", "WRITER"}));
  fence.reset();
  EXPECT_TRUE(late->save(run.state()));
  EXPECT_TRUE(late->finish());
}

TEST(Checkpoint, LeftoversOfDeadWritersAreCleanedUp) {
  Folder folder;
  ASSERT_TRUE(make_folders(folder / ".step-00000007.1.tmp"));
  const auto opened =
      Checkpointer::open({.folder = folder, .writer = attempt(2), .claim_time = ClaimTime::at_open})
          .value();
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{".lock", "WRITER"}));
}

TEST(Checkpoint, AFolderThatCannotBeWrittenIsNamedAndTheOldOnesStay) {
  Folder home;
  const auto folder = home / "run";
  Training run;
  auto checkpoints = Checkpointer::open({.folder = folder, .writer = attempt(1)}).value();
  ASSERT_TRUE(train_and_save(run, *checkpoints, 1));
  ASSERT_TRUE(run.train_step());
  // The tests may run as root, which permissions do not stop; a file in the folder's place does.
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
  // The limit on a file's size replaces the disk's: write(2) fails in the same way.
  Folder folder;
  Training run(Mesh::single(), 4096);
  auto checkpoints = Checkpointer::open({.folder = folder, .writer = attempt(1)}).value();
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
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{".lock", "WRITER", "step-00000001"}));
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

TEST(Checkpoint, AnotherOptimizerIsRefused) {
  Folder folder;
  three_checkpoints(folder);
  Training sgd(Mesh::single(), 5, {.method = Sgd{.momentum = 0.9}});
  EXPECT_EQ(sgd.resume_from(folder).error().code, Code::invalid);
}

TEST(Checkpoint, WhatIsMissingOrTooMuchIsNamed) {
  Folder folder;
  three_checkpoints(folder);
  const auto checkpoint = newest_checkpoint(folder).value();
  const auto& manifest = checkpoint.manifest();
  const auto fits =
      check_fits(manifest, {whole("parameter/first", at::zeros({5, 3}, at::kDouble)).value(),
                            whole("parameter/none", at::zeros({1})).value()});
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.error().code, Code::invalid);
  EXPECT_THAT(fits.error().message,
              AllOf(HasSubstr("parameter/first is float32 in the checkpoint"),
                    HasSubstr("float64 in the model"), HasSubstr("no parameter/none")));
  const auto complete = check_complete(manifest, {whole("buffer/steps", at::zeros({1})).value()});
  ASSERT_FALSE(complete);
  EXPECT_NE(complete.error().message.find(
                "the checkpoint has parameter/first, the model has not; the checkpoint has "
                "parameter/last, the model has not"),
            std::string::npos)
      << complete.error().message;
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
  ASSERT_TRUE(load(newest_checkpoint(folder).value(), {whole("parameter/first", saved).value()}));
  EXPECT_TRUE(saved.equal(before));
}

TEST(Checkpoint, OfTheMomentOfTheCallAreMomentsAndMastersThoughTheyAreCopiedBehind) {
  Folder folder;
  Training run(Mesh::single(), 1 << 16);
  ASSERT_TRUE(run.train_step());
  const auto tensors = run.state().tensors;
  const auto moment = std::ranges::find(tensors, "exp_avg/first", &OwnedTensor::name);
  ASSERT_NE(moment, tensors.end());
  EXPECT_TRUE(moment->stable_between_steps);
  const auto before = moment->tensor.clone();
  auto checkpoints = Checkpointer::open({.folder = folder}).value();
  ASSERT_TRUE(checkpoints->save(run.state()));
  ASSERT_TRUE(run.train_step());  // at once, and as many as fit into the copy and the writing
  ASSERT_TRUE(run.train_step());
  ASSERT_TRUE(checkpoints->finish());
  EXPECT_FALSE(moment->tensor.equal(before)) << "the steps changed it";
  auto saved = at::zeros({1 << 16, 3});
  ASSERT_TRUE(load(newest_checkpoint(folder).value(), {whole("exp_avg/first", saved).value()}));
  EXPECT_TRUE(saved.view(-1).equal(before));
}

TEST(Checkpoint, TheOptimizersStepWaitsForTheCopyAndIsToldToHaveHeldUp) {
  Training run;
  ASSERT_TRUE(run.train_step());
  std::promise<void> copying;
  run.model->snapshot_copies()->add(copying.get_future().share());
  auto step = std::async(std::launch::async, [&] { return run.train_step().has_value(); });
  EXPECT_EQ(step.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  copying.set_value();
  EXPECT_TRUE(step.get());
  EXPECT_GT(run.model->snapshot_copies()->take_wait_time().count(), 0);
}

TEST(Checkpoint, WhatIsChangedBesidesTheOptimizersStepWhileItIsCopiedFailsTheSaveByName) {
  Folder folder;
  Training run(Mesh::single(), 1 << 18);
  ASSERT_TRUE(run.train_step());
  auto checkpoints = Checkpointer::open({.folder = folder}).value();
  const auto state = run.state();
  const auto moment = std::ranges::find(state.tensors, "exp_avg/first", &OwnedTensor::name);
  Result<void> outcome;
  for (int attempt = 0; attempt < 100 && outcome; ++attempt) {  // the copy may be faster
    ASSERT_TRUE(checkpoints->save(run.state()));
    moment->tensor.narrow(0, 0, 1).add_(1);  // without waiting for readers
    outcome = checkpoints->finish();
  }
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().message.find("exp_avg/first was changed while it was copied"),
            std::string::npos)
      << outcome.error().message;
}

TEST(Checkpoint, AStateOfAnotherFormFailsAtTheNextCall) {
  Folder folder;
  Training run, wider(Mesh::single(), 6);
  auto checkpoints = Checkpointer::open({.folder = folder}).value();
  ASSERT_TRUE(train_and_save(run, *checkpoints, 1));
  ASSERT_TRUE(checkpoints->save(wider.state()));
  EXPECT_EQ(checkpoints->finish().error().code, Code::invalid);
  EXPECT_EQ(newest_checkpoint(folder).value().manifest().step, 1);
}

TEST(Checkpoint, AnImportedModelIsTrainedFromTheBeginningOfAnOptimizer) {
  Folder folder;
  three_checkpoints(folder / "trained");
  const auto file = folder / "model.safetensors";
  ASSERT_TRUE(export_safetensors(newest_checkpoint(folder / "trained").value(), file));
  ASSERT_TRUE(import_safetensors(file, folder / "tuned"));
  Training trained, tuned;
  ASSERT_TRUE(trained.resume_from(folder / "trained"));
  ASSERT_TRUE(tuned.resume_from(folder / "tuned"));
  EXPECT_EQ(tuned.step, 0);
  EXPECT_EQ(tuned.optimizer->steps(), 0);
  EXPECT_EQ(tuned.sampler.state().cursor, 0);
  EXPECT_TRUE(tuned.net.first.equal(trained.net.first));
  EXPECT_TRUE(tuned.net.steps.equal(trained.net.steps));
  ASSERT_TRUE(tuned.train_step());
}

}  // namespace
}  // namespace lockstep::train
