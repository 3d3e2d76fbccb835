#include "platform/engine/local/local_engine.h"

#include <csignal>
#include <cstdlib>
#include <deque>
#include <functional>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

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
      const std::vector<RunningNode> left = *engine.list();
      for (const RunningNode& present : left) EXPECT_TRUE(engine.kill(present.node));
    }
  }

  LocalEngine& engine(std::string_view home, std::string_view script) {
    path program = root_ / format("{}-program", home);
    EXPECT_TRUE(write_file(program, format("#!/bin/sh\n{}\n", script), 0700));
    engines_.push_back(*LocalEngine::open({.name = program, .file = program}, root_ / home));
    return engines_.back();
  }

  LaunchSpec launch(const std::string& node) const {
    LaunchSpec result;
    const model::NodeName name = *model::parse_node_name(node);
    result.node = text(name.id);
    result.generation = name.generation;
    result.host = "h";
    result.command = {"true"};
    result.node_folder = folder(node);
    result.daemon_file = root_ / "daemon.json";
    result.token = "token";
    result.secret = std::string(64, 'a');
    return result;
  }
  path folder(const std::string& node) const {
    return host::node_folder(root_ / "home", *model::parse_node_name(node));
  }

  const TemporaryFolder root_;
  std::deque<LocalEngine> engines_;
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

std::vector<model::NodeName> nodes_of(const Result<std::vector<RunningNode>>& list) {
  std::vector<model::NodeName> nodes;
  for (const RunningNode& present : *list) nodes.push_back(present.node);
  return nodes;
}

std::string content(const path& file) { return read_file(file).value_or(std::string()); }

TEST_F(LocalEngineTest, AnAgentIsListedFromItsLaunchUntilItsEnd) {
  LocalEngine& local = engine("home", kAgent);
  EXPECT_TRUE(local.list()->empty());
  ASSERT_TRUE(local.launch(launch("demo/1.1/0")));
  EXPECT_EQ(nodes_of(local.list()), std::vector{node("demo/1.1/0")});
  ASSERT_TRUE(local.kill(node("demo/1.1/0")));
  EXPECT_TRUE(eventually([&] { return local.list()->empty(); }));
}

TEST_F(LocalEngineTest, LaunchingTwiceStartsOneAgent) {
  LocalEngine& local = engine("home", kAgent);
  EXPECT_FALSE(local.has_started(node("demo/1.1/0")));
  ASSERT_TRUE(local.launch(launch("demo/1.1/0")));
  ASSERT_TRUE(eventually([&] { return !content(folder("demo/1.1/0") / "starts").empty(); }));
  ASSERT_TRUE(local.launch(launch("demo/1.1/0")));
  ASSERT_TRUE(local.kill(node("demo/1.1/0")));
  ASSERT_TRUE(eventually([&] { return local.list()->empty(); }));
  EXPECT_EQ(content(folder("demo/1.1/0") / "starts"), "started\n");
  EXPECT_TRUE(local.has_started(node("demo/1.1/0")));
}

TEST_F(LocalEngineTest, TheLaunchFileIsForItsOwnerOnlyAndReadsBack) {
  LocalEngine& local = engine("home", "exit 0");
  ASSERT_TRUE(local.launch(launch("demo/1.1/0")));
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
  ASSERT_TRUE(local.launch(launch("demo/1.1/0")));
  ASSERT_TRUE(eventually([&] { return content(root_ / "child.up") == "up\nup\n"; }));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(local.list()->size(), 1u);
  // Repeated as the controller does: a process between fork and exec is not seen.
  EXPECT_TRUE(eventually(
      [&] { return local.kill(node("demo/1.1/0")).has_value() && local.list()->empty(); }));
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
  ASSERT_TRUE(local.launch(launch("demo/1.1/0")));
  ASSERT_TRUE(eventually([&] { return processes_with_argument(forker.string()) > 1; }));
  ASSERT_TRUE(local.kill(node("demo/1.1/0")));
  EXPECT_TRUE(eventually([&] { return local.list()->empty(); }));
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
  ASSERT_TRUE(local.launch(launch("demo/1.1/0")));
  const path file = folder("demo/1.1/0") / "agent.pid";
  ASSERT_TRUE(eventually([&] { return content(file).ends_with('\n'); }));
  for (int i = 0; i < 4; ++i) (void)local.list();
  EXPECT_EQ(*local.list(), (std::vector<RunningNode>{{node("demo/1.1/0"), true}}));
  ::kill(std::stoi(content(file)), SIGKILL);
  EXPECT_TRUE(eventually(
      [&] { return *local.list() == std::vector<RunningNode>{{node("demo/1.1/0"), false}}; }));
}

TEST_F(LocalEngineTest, TwoInstallationsDoNotSeeEachOthersNodes) {
  LocalEngine& one = engine("one", kAgent);
  LocalEngine& two = engine("two", kAgent);
  ASSERT_TRUE(one.launch(launch("demo/1.1/0")));
  ASSERT_TRUE(eventually([&] { return !content(folder("demo/1.1/0") / "starts").empty(); }));
  EXPECT_TRUE(two.list()->empty());
  ASSERT_TRUE(two.kill(node("demo/1.1/0")));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(one.list()->size(), 1u);
}

TEST_F(LocalEngineTest, ADaemonThatWasStartedLaterSeesTheNodes) {
  ASSERT_TRUE(engine("home", kAgent).launch(launch("demo/1.1/1")));
  // Its exec closes the pipe on which the launch waits a moment before its environment can be read.
  LocalEngine& later = engine("home", kAgent);
  EXPECT_TRUE(
      eventually([&] { return nodes_of(later.list()) == std::vector{node("demo/1.1/1")}; }));
}

TEST_F(LocalEngineTest, AMissingProgramIsNamed) {
  LocalEngine& local = engine("home", "");
  std::filesystem::remove(root_ / "home-program");
  auto launched = local.launch(launch("demo/1.1/0"));
  ASSERT_FALSE(launched);
  EXPECT_NE(launched.error().message.find("home-program"), std::string::npos);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(local.list()->empty());
}

TEST_F(LocalEngineTest, TheAgentHasNoFileOfTheDaemonsOpen) {
  Fd kept(::open("/dev/null", O_RDONLY));  // not close-on-exec
  LocalEngine& local =
      engine("home", "ls /proc/self/fd | wc -l > $(dirname \"$2\")/files; exec sleep 600");
  ASSERT_TRUE(local.launch(launch("demo/1.1/0")));
  const path files = folder("demo/1.1/0") / "files";
  ASSERT_TRUE(eventually([&] { return !content(files).empty(); }));
  EXPECT_EQ(std::stoi(content(files)), 4);  // 0, 1, 2 and ls's own
}

}  // namespace
}  // namespace lockstep::engine
