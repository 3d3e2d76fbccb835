#include "platform/engine/local/local_engine.h"

#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/cgroup.h"
#include "base/os/fd.h"
#include "base/os/files.h"
#include "base/os/processes.h"
#include "base/temporary_folder_for_test.h"
#include "platform/engine/local/eventually_for_test.h"
#include "platform/host/node_files.h"

namespace lockstep::engine {
namespace {

using std::filesystem::path;

// An installation with a shell script instead of the agent.
class LocalEngineTest : public testing::Test {
 protected:
  ~LocalEngineTest() override {
    for (auto& engine : engines_) {
      const auto listed = engine->list();
      for (const ListedNode& left : listed->nodes) engine->kill(left.node);
    }
  }

  LocalEngine& engine(std::string_view home, std::string_view script) {
    path program = root_ / format("{}-program", home);
    EXPECT_TRUE(write_file(program, format("#!/bin/sh\n{}\n", script), 0700));
    engines_.push_back(*LocalEngine::open({.name = program, .file = program}, root_ / home));
    return *engines_.back();
  }

  // Nodes 0, 1, ... of attempt 1 of demo/1.
  Gang gang(int nodes = 1) const {
    Gang gang{.attempt = {"", {{"demo", 1}, 1}}, .program = {}, .nodes = {}};
    gang.program.command = {"true"};
    gang.program.token = "token";
    gang.program.secret = std::string(64, 'a');
    for (int index = 0; index < nodes; ++index)
      gang.nodes.push_back({.index = index,
                            .host = "h",
                            .address = {},
                            .devices = {},
                            .device_uuids = {},
                            .islands = {}});
    return gang;
  }
  bool has_started(const std::string& node) const {
    return eventually([&] { return !read_file(folder(node) / "starts").value_or("").empty(); });
  }
  path folder(const std::string& node) const {
    return host::node_folder(root_ / "home", *model::parse_node_name(node));
  }

  const TemporaryFolder root_;
  std::vector<std::unique_ptr<LocalEngine>> engines_;
};

// Like the agent: takes the lock, reports that, and stays. After that it never calls exec, during
// which a process shows no environment.
constexpr std::string_view kAgent = R"(
folder=$(dirname "$2")
exec 9>"$folder/agent.lock"
flock -n 9 || exit 0
echo started >> "$folder/starts"
sleep 600
exit 0
)";

model::NodeName node(const std::string& words) { return *model::parse_node_name(words); }

std::vector<model::NodeName> nodes_of(const Result<EngineList>& list) {
  std::vector<model::NodeName> nodes;
  for (const ListedNode& listed : list->nodes) nodes.push_back(listed.node);
  return nodes;
}

std::string content(const path& file) { return read_file(file).value_or(std::string()); }

TEST_F(LocalEngineTest, AnAgentIsListedFromItsSubmissionUntilItsEnd) {
  LocalEngine& local = engine("home", kAgent);
  EXPECT_TRUE(local.list()->nodes.empty());
  local.submit(gang());
  EXPECT_EQ(nodes_of(local.list()), std::vector{node("demo/1.1/0")});
  ASSERT_TRUE(has_started("demo/1.1/0"));
  EXPECT_EQ(nodes_of(local.list()), std::vector{node("demo/1.1/0")});
  local.kill(node("demo/1.1/0"));
  EXPECT_TRUE(eventually([&] { return local.list()->nodes.empty(); }));
}

TEST_F(LocalEngineTest, SubmittingTwiceStartsOneAgentAlsoAfterItsEnd) {
  LocalEngine& local = engine("home", kAgent);
  local.submit(gang());
  ASSERT_TRUE(has_started("demo/1.1/0"));
  local.submit(gang());
  EXPECT_EQ(local.list()->nodes.size(), 1u);
  local.kill(node("demo/1.1/0"));
  ASSERT_TRUE(eventually([&] { return local.list()->nodes.empty(); }));
  LocalEngine& later = engine("home", kAgent);
  later.submit(gang());
  EXPECT_TRUE(eventually([&] { return later.list()->nodes.empty(); })) << "it has run already";
  EXPECT_EQ(content(folder("demo/1.1/0") / "starts"), "started\n");
}

// The thread first makes a list, since a daemon asks for one before it starts anything.
TEST_F(LocalEngineTest, ANodeThatIsKilledBeforeItsTurnIsNotStarted) {
  LocalEngine& local = engine("home", kAgent);
  const Gang many = gang(20);
  local.submit(many);
  local.kill(node("demo/1.1/19"));
  ASSERT_TRUE(has_started("demo/1.1/18"));
  EXPECT_EQ(local.list()->nodes.size(), 19u);
  EXPECT_FALSE(std::filesystem::exists(folder("demo/1.1/19")));
}

TEST_F(LocalEngineTest, TheLaunchFileIsForItsOwnerOnlyAndReadsBack) {
  LocalEngine& local = engine("home", "exit 0");
  local.submit(gang());
  ASSERT_TRUE(eventually([&] { return !content(folder("demo/1.1/0") / "launch.json").empty(); }));
  struct stat status{};
  ASSERT_EQ(::stat((folder("demo/1.1/0") / "launch.json").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_NE(content(folder("demo/1.1/0") / "launch.json").find("demo/1.1/0"), std::string::npos);
}

TEST_F(LocalEngineTest, WhatTheAgentStartedIsListedAndKilledThoughItLeftTheSession) {
  const path child = root_ / "child";  // a shell that never calls exec once it has begun
  ASSERT_TRUE(write_file(child, "#!/bin/sh\necho up >> \"$0.up\"\nsleep 600\nexit 0\n", 0700));
  LocalEngine& local = engine(
      "home", format("setsid {} & setsid setsid {} & exit 0", child.string(), child.string()));
  local.submit(gang());
  ASSERT_TRUE(eventually([&] { return content(root_ / "child.up") == "up\nup\n"; }));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(local.list()->nodes.size(), 1u);
  // Repeated as the controller does: a process between fork and exec is not seen.
  EXPECT_TRUE(eventually([&] {
    local.kill(node("demo/1.1/0"));
    return local.list()->nodes.empty();
  }));
}

// How many processes have the words among their arguments.
int processes_with_argument(const std::string& words) {
  int count = 0;
  for (const Process& process : processes_of_user())
    count += content(format("/proc/{}/cmdline", process.pid)).find(words) != std::string::npos;
  return count;
}

TEST_F(LocalEngineTest, WhatClearedItsEnvironmentAndForksIsKilledWithItsAgent) {
  const path forker = root_ / "forker";  // starts another of its kind every 50 ms
  ASSERT_TRUE(write_file(forker, "#!/bin/sh\nsleep 0.05\n\"$0\" & wait\n", 0700));
  LocalEngine& local = engine("home", format("env -i {} & sleep 600", forker.string()));
  local.submit(gang());
  ASSERT_TRUE(eventually([&] { return processes_with_argument(forker.string()) > 1; }));
  local.kill(node("demo/1.1/0"));
  EXPECT_TRUE(eventually([&] { return local.list()->nodes.empty(); }));
  EXPECT_TRUE(eventually([&] { return processes_with_argument(root_.path().string()) == 0; }));
}

TEST_F(LocalEngineTest, AnAgentThatDiedBeforeWhatItStartedIsMissed) {
  LocalEngine& local = engine("home", R"(
folder=$(dirname "$2")
setsid sleep 600 &
exec 9>"$folder/agent.lock"
flock -n 9 || exit 0
echo $$ > "$folder/agent.pid"
exec sleep 600
)");
  local.submit(gang());
  const path file = folder("demo/1.1/0") / "agent.pid";
  ASSERT_TRUE(eventually([&] { return content(file).ends_with('\n'); }));
  for (int i = 0; i < 4; ++i) (void)local.list();
  const auto has_agent = [&] {
    const auto listed = local.list();
    return listed->nodes.size() == 1 && listed->nodes.front().seen.has_agent;
  };
  EXPECT_TRUE(has_agent());
  ::kill(std::stoi(content(file)), SIGKILL);
  EXPECT_TRUE(eventually([&] { return !has_agent(); }));
  EXPECT_EQ(local.list()->nodes.size(), 1u);
}

TEST_F(LocalEngineTest, TwoInstallationsDoNotSeeEachOthersNodes) {
  LocalEngine& one = engine("one", kAgent);
  LocalEngine& two = engine("two", kAgent);
  one.submit(gang());
  const path started = host::node_folder(root_ / "one", node("demo/1.1/0")) / "starts";
  ASSERT_TRUE(eventually([&] { return !content(started).empty(); }));
  EXPECT_TRUE(two.list()->nodes.empty());
  two.kill(node("demo/1.1/0"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(one.list()->nodes.size(), 1u);
}

TEST_F(LocalEngineTest, ADaemonThatWasStartedLaterSeesTheNodesAndWhatTheyWereLaunchedWith) {
  Gang first = gang();
  first.program.time_left = std::chrono::hours(2);
  engine("home", kAgent).submit(first);
  ASSERT_TRUE(has_started("demo/1.1/0"));
  LocalEngine& later = engine("home", kAgent);
  ASSERT_TRUE(
      eventually([&] { return nodes_of(later.list()) == std::vector{node("demo/1.1/0")}; }));
  const auto listed = later.list();
  ASSERT_TRUE(listed->nodes.front().record);
  EXPECT_EQ(listed->nodes.front().record->host, "h");
  EXPECT_EQ(listed->nodes.front().record->time_left, Duration(std::chrono::hours(2)));
}

TEST_F(LocalEngineTest, AGangOfWhichANodeCannotStartHasThatReasonAndStartsNoFurtherNode) {
  LocalEngine& local = engine("home", kAgent);
  Gang three = gang(3);
  ASSERT_TRUE(make_folders(folder("demo/1.1/1").parent_path()));
  ASSERT_TRUE(write_file(folder("demo/1.1/1"), "a file"));
  local.submit(three);
  const auto reason = [&] {
    const auto listed = local.list();
    for (const ListedNode& node : listed->nodes)
      if (node.seen.phase == model::NodePhase::gone) return node.seen.reason;
    return std::string();
  };
  EXPECT_TRUE(eventually([&] { return reason().find("node-1") != std::string::npos; }));
  EXPECT_EQ(nodes_of(local.list()), (std::vector{node("demo/1.1/0"), node("demo/1.1/1")}));
  EXPECT_FALSE(std::filesystem::exists(folder("demo/1.1/2")));
}

TEST_F(LocalEngineTest, AMissingProgramIsNamedAndIsTheFaultOfTheHost) {
  LocalEngine& local = engine("home", "");
  std::filesystem::remove(root_ / "home-program");
  local.submit(gang());
  const auto seen = [&] {
    const auto listed = local.list();
    return listed->nodes.empty() ? model::Observation{} : listed->nodes.front().seen;
  };
  ASSERT_TRUE(eventually([&] { return seen().phase == model::NodePhase::gone; }));
  EXPECT_NE(seen().reason.find("home-program"), std::string::npos);
  EXPECT_EQ(seen().blame, model::EndBlame::host);
}

TEST_F(LocalEngineTest, AUserThatTheHostDoesNotAllowIsARefusalAndAMissingAccountIsNot) {
  for (const auto& [code, blame] : {std::pair(Code::denied, model::EndBlame::refusal),
                                    std::pair(Code::not_found, model::EndBlame::host)}) {
    const path program = root_ / "program";
    ASSERT_TRUE(write_file(program, "#!/bin/sh\n", 0700));
    const auto local = *LocalEngine::open(
        {.name = program, .file = program}, root_ / std::string(name_of(blame)),
        [code](const host::LaunchSpec& launch) -> Result<std::optional<Account>> {
          return Error{code, format("no ranks as '{}'", launch.user)};
        });
    local->submit(gang());
    const auto is_gone = [&] {
      const auto listed = local->list();
      return !listed->nodes.empty() && listed->nodes.front().seen.phase == model::NodePhase::gone;
    };
    ASSERT_TRUE(eventually(is_gone));
    const auto listed = local->list();
    EXPECT_EQ(listed->nodes.front().seen.blame, blame);
    EXPECT_EQ(listed->nodes.front().seen.reason, "no ranks as ''");
    // As root, the engine has made a folder for control groups.
    for (const char* controller : {".", "memory", "cpu", "pids"})
      ::rmdir((path(kCgroupRoot) / controller / "lockstep" / local->installation()).c_str());
  }
}

TEST_F(LocalEngineTest, TheAgentHasNoFileOfTheDaemonsOpen) {
  Fd kept(::open("/dev/null", O_RDONLY));  // not close-on-exec
  LocalEngine& local =
      engine("home", "ls /proc/self/fd | wc -l > $(dirname \"$2\")/files; exec sleep 600");
  local.submit(gang());
  const path files = folder("demo/1.1/0") / "files";
  ASSERT_TRUE(eventually([&] { return !content(files).empty(); }));
  EXPECT_EQ(std::stoi(content(files)), 4);  // 0, 1, 2 and ls's own
}

}  // namespace
}  // namespace lockstep::engine
