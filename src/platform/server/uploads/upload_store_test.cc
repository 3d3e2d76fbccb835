#include "platform/server/uploads/upload_store.h"

#include <chrono>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/format.h"
#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "net/base64.h"
#include "platform/host/node_files.h"

namespace lockstep::server {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kTrain = "print('hello')\n";
constexpr std::string_view kData = "0123456789";

std::string base64_of(std::string_view text) {
  return net::to_base64(std::as_bytes(std::span(text.data(), text.size())));
}

class LaterClock : public Clock {
 public:
  Time now() const override { return SystemClock().now() + by; }
  Duration by{};
};

class UploadStoreTest : public ::testing::Test {
 protected:
  static model::UploadEntry entry(std::string path, std::string_view content) {
    return {.path = std::move(path),
            .sha256 = net::sha256_hex(content),
            .size = Bytes(std::ssize(content))};
  }
  static model::UploadManifest manifest() {
    return {{entry("a/data", kData),
             entry("copy", kTrain),
             {.path = "link", .link = "a/data"},
             entry("train.py", kTrain)}};
  }
  api::UploadPart part(std::string_view content, std::int64_t offset = 0, std::int64_t size = -1) {
    const auto bytes =
        content.substr(static_cast<std::size_t>(offset),
                       size < 0 ? std::string_view::npos : static_cast<std::size_t>(size));
    return {net::sha256_hex(content), offset, base64_of(bytes)};
  }
  Result<api::UploadAnswer> add() { return store_->add_manifest("ann", manifest(), 1_GiB); }
  // The id of the folder, which is complete.
  std::string upload() {
    EXPECT_TRUE(add());
    EXPECT_EQ(store_->add_parts("ann", {part(kTrain), part(kData)}).value_or(0), 2);
    return add().value().id;
  }
  static model::Run run_with(const std::string& id, int number = 1) {
    model::Run run;
    run.id = {"demo", number};
    run.generation = "0123456789abcdef";
    run.spec.upload = id;
    return run;
  }
  void clean_up() {
    clock_.by += std::chrono::hours(25);
    restart();
    for (int i = 0; i < 10'000; ++i)
      if (!store_->clean_up_slice().value()) return;
    FAIL() << "it does not end";
  }
  void restart() { store_ = std::make_unique<UploadStore>(home_.path(), clock_); }
  bool has(std::string_view content) const {
    return fs::exists(UploadFolder{home_ / "uploads"}.file(net::sha256_hex(content)));
  }

  const TemporaryFolder home_;
  LaterClock clock_;
  std::unique_ptr<UploadStore> store_ = std::make_unique<UploadStore>(home_.path(), clock_);
};

TEST_F(UploadStoreTest, OnlyWhatTheDaemonLacksIsAskedFor) {
  const auto answer = add();
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->missing.size(), 2u);
  EXPECT_FALSE(store_->check_complete("ann", answer->id));
  EXPECT_EQ(store_->add_parts("ann", {part(kTrain)}).value(), 1);
  EXPECT_THAT(add()->missing, ElementsAre(net::sha256_hex(kData)));
  EXPECT_EQ(store_->add_parts("ann", {part(kData)}).value(), 1);
  EXPECT_THAT(add()->missing, IsEmpty());
  EXPECT_TRUE(store_->check_complete("ann", answer->id));
  restart();
  EXPECT_THAT(add()->missing, IsEmpty());
}

TEST_F(UploadStoreTest, AUserThatOnlyKnowsTheSumsOfAnothersFilesGetsNone) {
  const std::string id = upload();
  EXPECT_TRUE(store_->check_complete("ann", id));
  EXPECT_FALSE(store_->check_complete("bob", id));
  EXPECT_EQ(store_->add_manifest("bob", manifest(), 1_GiB)->missing.size(), 2u);
  EXPECT_FALSE(store_->check_complete("bob", id));
  EXPECT_EQ(store_->add_parts("bob", {part(kTrain), part(kData)}).value(), 2);
  EXPECT_TRUE(store_->check_complete("bob", id));
  EXPECT_TRUE(store_->check_complete("ann", id));
}

TEST_F(UploadStoreTest, TheBeginningOfAnothersFileIsNotContinued) {
  ASSERT_TRUE(add());
  ASSERT_TRUE(store_->add_manifest("bob", manifest(), 1_GiB));
  EXPECT_EQ(store_->add_parts("ann", {part(kData, 0, 9)}).value(), 0);
  EXPECT_EQ(store_->add_parts("bob", {part(kData, 9)}).value(), 0);
  EXPECT_FALSE(has(kData));
}

TEST_F(UploadStoreTest, PartsCountInTheirOrderAndOnce) {
  ASSERT_TRUE(add());
  EXPECT_EQ(
      store_->add_parts("ann", {part(kData, 4, 3), part(kData, 0, 4), part(kData, 0, 4)}).value(),
      0);
  EXPECT_EQ(store_->add_parts("ann", {part(kData, 4, 3)}).value(), 0);
  EXPECT_FALSE(has(kData));
  EXPECT_EQ(store_->add_parts("ann", {part(kData, 7)}).value(), 1);
  EXPECT_TRUE(has(kData));
  EXPECT_EQ(store_->add_parts("ann", {part(kData, 7)}).value(), 0);
}

TEST_F(UploadStoreTest, ARestartedDaemonAsksForTheBeginningAgain) {
  ASSERT_TRUE(add());
  ASSERT_TRUE(store_->add_parts("ann", {part(kData, 0, 4)}));
  restart();
  EXPECT_EQ(store_->add_parts("ann", {part(kData, 4)}).value(), 0) << "no manifest was sent to it";
  ASSERT_TRUE(add());
  EXPECT_EQ(store_->add_parts("ann", {part(kData, 4)}).value(), 0);
  EXPECT_EQ(store_->add_parts("ann", {part(kData)}).value(), 1);
}

TEST_F(UploadStoreTest, ContentThatIsNotThatOfItsNameIsRefused) {
  ASSERT_TRUE(add());
  api::UploadPart wrong = part(kData);
  wrong.bytes = base64_of("012345678X");
  EXPECT_THAT(store_->add_parts("ann", {wrong}).error().message, HasSubstr("was changed"));
  wrong.bytes = base64_of("0123456789more");
  EXPECT_THAT(store_->add_parts("ann", {wrong}).error().message, HasSubstr("was changed"));
  EXPECT_FALSE(has(kData));
  EXPECT_EQ(store_->add_parts("ann", {part(kData)}).value(), 1);
  EXPECT_EQ(store_->add_parts("ann", {{"../../../key", 0, base64_of("x")}}).value(), 0);
}

TEST_F(UploadStoreTest, AManifestThatLeavesItsFolderOrIsTooLargeIsRefused) {
  EXPECT_FALSE(store_->add_manifest("ann", {{entry("../x", kData)}}, 1_GiB));
  EXPECT_THAT(store_->add_manifest("ann", manifest(), 12_B).error().message,
              HasSubstr("train.py (15 B)"));
  EXPECT_FALSE(store_->check_complete("ann", "../../key"));
}

TEST_F(UploadStoreTest, AnAgentGetsTheFilesOfItsRunAndNoOthers) {
  const model::Run run = run_with(upload());
  ASSERT_TRUE(store_->keep_manifest(run));
  EXPECT_EQ(store_->manifest_of(run).value(), manifest());
  const auto parts =
      store_->parts_of(run, {{{net::sha256_hex(kData), 8}, {net::sha256_hex(kTrain), 0}}}).value();
  ASSERT_EQ(parts.parts.size(), 2u);
  EXPECT_EQ(parts.parts[0].bytes, base64_of("89"));
  EXPECT_EQ(parts.parts[1].bytes, base64_of(kTrain));
  EXPECT_FALSE(store_->parts_of(run, {{{net::sha256_hex("other"), 0}}}));
  EXPECT_FALSE(store_->parts_of(run, {{{"../../key", 0}}}));
  EXPECT_FALSE(store_->parts_of(run, {{{net::sha256_hex(kData), 11}}}));
  EXPECT_EQ(store_->manifest_of(run_with(std::string(64, 'a'), 2)).error().code, Code::not_found);
}

TEST_F(UploadStoreTest, TheManifestOfARunIsFoundAfterADaemonDiedBeforeItKeptIt) {
  const model::Run run = run_with(upload());
  restart();
  EXPECT_TRUE(store_->manifest_of(run));
  EXPECT_TRUE(fs::exists(host::upload_manifest_file(home_, run.generation, run.id)));
}

TEST_F(UploadStoreTest, FilesStayWhileARunThatIsKeptNamesThem) {
  const model::Run run = run_with(upload());
  ASSERT_TRUE(store_->keep_manifest(run));
  ASSERT_TRUE(store_->add_manifest("ann", {{entry("more", "more")}}, 1_GiB));
  ASSERT_EQ(store_->add_parts("ann", {part("more")}).value(), 1);
  clean_up();
  EXPECT_TRUE(has(kData) && has(kTrain));
  EXPECT_FALSE(has("more"));
  EXPECT_TRUE(store_->manifest_of(run));
  fs::remove_all(host::run_folder(home_, run.generation, run.id));  // as `lockstep rm` does
  clean_up();
  EXPECT_FALSE(has(kData) || has(kTrain));
}

TEST_F(UploadStoreTest, FilesOfTheLastDayStayAndSoDoThoseThatAreNamedDuringACleanup) {
  upload();
  while (store_->clean_up_slice().value()) {
  }
  EXPECT_TRUE(has(kData));
  clock_.by += std::chrono::hours(25);
  restart();
  ASSERT_TRUE(store_->clean_up_slice().value());
  EXPECT_THAT(add()->missing, IsEmpty());
  while (store_->clean_up_slice().value()) {
  }
  EXPECT_TRUE(has(kData));
}

TEST_F(UploadStoreTest, ADamagedManifestOfARunKeepsAllFiles) {
  const model::Run run = run_with(upload());
  const fs::path file = host::upload_manifest_file(home_, run.generation, run.id);
  ASSERT_TRUE(make_folders(file.parent_path()));
  ASSERT_TRUE(write_file(file, "{"));
  clock_.by += std::chrono::hours(25);
  restart();
  Result<bool> worked = true;
  while (worked && *worked) worked = store_->clean_up_slice();
  EXPECT_FALSE(worked);
  EXPECT_TRUE(has(kData));
}

}  // namespace
}  // namespace lockstep::server
