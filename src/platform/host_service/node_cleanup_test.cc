#include "platform/host_service/node_cleanup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/file_lock.h"
#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "platform/host/node_files.h"
#include "platform/spool/telemetry_item.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::host_service {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string kStore(16, 'a');

model::NodeName cleanup_node(int number = 1) { return {kStore, {{{"demo", number}, 1}, 0}}; }

// A daemon that keeps the items.
class NodeCleanupTest : public ::testing::Test {
 protected:
  host::NodeFiles files(const model::NodeName& node = cleanup_node()) const {
    return {host::node_folder(home_, node)};
  }
  // An ended node, with its agent's log and items that were not delivered.
  void leave(const model::NodeName& node, int items = 0) const {
    ASSERT_TRUE(make_folders(files(node).folder));
    ASSERT_TRUE(write_file(files(node).launch_file(), "{}"));
    ASSERT_TRUE(write_file(files(node).secret(), "secret"));
    ASSERT_TRUE(write_file(files(node).agent_log(), "log"));
    std::string lines;
    for (int sequence = 1; sequence <= items; ++sequence)
      lines += format("{} ", sequence) +
               dump_json(to_json(spool::TelemetryItem{.sequence = sequence, .text = "line"})) +
               "\n";
    ASSERT_TRUE(write_file(files(node).spool(), lines));
  }
  Result<api::CollectAnswer> collect(const api::CollectRequest& request) {
    if (is_away) return Error{Code::unavailable, "away"};
    for (const spool::TelemetryItem& item : request.items) stored.push_back(item.sequence);
    return api::CollectAnswer{.acknowledged = stored.empty() ? 0 : stored.back(), .known = knows};
  }
  Result<api::RunFolders> kept_files(api::RunFolders question) const {
    if (is_away) return Error{Code::unavailable, "away"};
    for (api::RunFolder& folder : question.folders) folder.kept = kept;
    return question;
  }

  const TemporaryFolder home_;
  bool is_away = false, knows = true;
  api::KeptFiles kept = api::KeptFiles::all;
  std::vector<std::int64_t> stored;
  NodeCleanup cleanup_{{.home = home_,
                        .token_of = [](const model::NodeName& node) { return text(node); },
                        .collect = [this](const auto& request) { return collect(request); },
                        .kept_files = [this](const auto& folders) { return kept_files(folders); }}};
};

TEST_F(NodeCleanupTest, TheItemsOfAKilledAgentReachTheDaemonAndItsSecretsGo) {
  leave(cleanup_node(), 3);
  cleanup_.work({});
  EXPECT_THAT(stored, ElementsAre(1, 2, 3));
  for (const fs::path& gone : {files().launch_file(), files().secret(), files().spool()})
    EXPECT_FALSE(fs::exists(gone)) << gone;
  EXPECT_TRUE(fs::exists(files().agent_log()));
}

TEST_F(NodeCleanupTest, ANodeThatIsThereIsLeftAloneUntilItIsGone) {
  leave(cleanup_node(), 1);
  cleanup_.work({cleanup_node()});
  EXPECT_TRUE(fs::exists(files().launch_file()));
  EXPECT_THAT(stored, IsEmpty());
  cleanup_.work({});
  EXPECT_FALSE(fs::exists(files().launch_file()));
}

TEST_F(NodeCleanupTest, ANodeWhoseAgentHoldsItsLockIsLeftAlone) {
  leave(cleanup_node(), 1);
  const auto lock = try_lock(files().lock());
  ASSERT_TRUE(lock);
  cleanup_.work({});
  EXPECT_TRUE(fs::exists(files().launch_file()));
}

TEST_F(NodeCleanupTest, NothingIsRemovedWhileTheDaemonIsAway) {
  is_away = true;
  leave(cleanup_node(), 1);
  cleanup_.work({});
  EXPECT_TRUE(fs::exists(files().spool()));
  EXPECT_TRUE(fs::exists(files().launch_file()));
}

TEST_F(NodeCleanupTest, TheItemsOfANodeThatTheDaemonDoesNotKnowAreDropped) {
  knows = false;
  leave(cleanup_node(), 2);
  cleanup_.work({});
  EXPECT_THAT(stored, IsEmpty());
  EXPECT_FALSE(fs::exists(files().launch_file()));
}

TEST_F(NodeCleanupTest, AnOldRunLosesItsLogsAndKeepsItsCheckpoints) {
  leave(cleanup_node());
  cleanup_.work({});
  const fs::path checkpoint =
      host::default_checkpoint_folder(home_, kStore, cleanup_node().id.attempt.run) / "step-1";
  ASSERT_TRUE(make_folders(checkpoint.parent_path()));
  ASSERT_TRUE(write_file(checkpoint, "weights"));
  kept = api::KeptFiles::checkpoints;
  NodeCleanup later({.home = home_,
                     .token_of = [](const model::NodeName& node) { return text(node); },
                     .collect = [this](const auto& request) { return collect(request); },
                     .kept_files = [this](const auto& folders) { return kept_files(folders); }});
  later.work({});
  EXPECT_FALSE(fs::exists(files().agent_log()));
  EXPECT_TRUE(fs::exists(checkpoint));
}

TEST_F(NodeCleanupTest, ARemovedRunLosesEverything) {
  kept = api::KeptFiles::none;
  leave(cleanup_node(1));
  leave(cleanup_node(2));
  std::filesystem::remove(files(cleanup_node(2)).launch_file());
  cleanup_.work({cleanup_node(1)});
  EXPECT_TRUE(fs::exists(files(cleanup_node(1)).folder));
  EXPECT_FALSE(fs::exists(host::run_folder(home_, kStore, cleanup_node(2).id.attempt.run)));
}

}  // namespace
}  // namespace lockstep::host_service
