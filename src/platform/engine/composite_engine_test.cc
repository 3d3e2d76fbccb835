#include "platform/engine/composite_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map/query.h"

namespace lockstep::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Lists the nodes that were submitted to it.
class PartForTest : public Engine {
 public:
  explicit PartForTest(std::string name) : name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  void submit(Gang gang) override {
    for (const NodePlacement& placement : gang.nodes)
      listed.nodes.push_back({.node = node_name(gang, placement)});
  }
  void kill(const model::NodeName& node) override { killed.push_back(node); }
  Result<EngineList> list() override {
    if (!away.empty()) return Error{Code::unavailable, away};
    return listed;
  }

  EngineList listed{};
  std::string away{};  // why it has no list
  std::vector<model::NodeName> killed{};

 private:
  std::string name_;
};

class CompositeEngineTest : public testing::Test {
 protected:
  // Attempt 1 of demo/NUMBER, a node on each of these hosts.
  static Gang gang(int number, const std::vector<std::string>& hosts) {
    Gang gang{.attempt = {"", {{"demo", number}, 1}}, .program = {}, .nodes = {}};
    for (const std::string& host : hosts) {
      NodePlacement& placed = gang.nodes.emplace_back();
      placed.index = static_cast<int>(gang.nodes.size()) - 1;
      placed.host = host;
    }
    return gang;
  }
  static std::vector<std::string> nodes_of(const Result<EngineList>& list) {
    std::vector<std::string> names;
    for (const ListedNode& listed : list->nodes) names.push_back(text(listed.node));
    return names;
  }

  static map::ClusterMap map_of(const std::vector<std::string>& hosts) {
    map::ClusterMap map;
    map.pods.emplace_back().leaves.emplace_back();
    for (const std::string& id : hosts) map.pods[0].leaves[0].hosts.emplace_back().id = id;
    return map;
  }

  PartForTest local_{"local"}, slurm_{"slurm"};
  const std::unique_ptr<CompositeEngine> owned_ =
      CompositeEngine::create({{local_, map_of({"here"})}, {slurm_, map_of({"s1", "s2"})}}).value();
  CompositeEngine& engine_ = *owned_;
};

TEST_F(CompositeEngineTest, AGangGoesToTheEngineOfItsHostsAndAllAreListedInOrder) {
  engine_.submit(gang(2, {"here"}));
  engine_.submit(gang(1, {"s1", "s2"}));
  EXPECT_THAT(nodes_of(local_.list()), ElementsAre("demo/2.1/0"));
  EXPECT_THAT(nodes_of(slurm_.list()), ElementsAre("demo/1.1/0", "demo/1.1/1"));
  EXPECT_THAT(nodes_of(engine_.list()), ElementsAre("demo/1.1/0", "demo/1.1/1", "demo/2.1/0"));
  EXPECT_EQ(engine_.name(), "local,slurm");
}

TEST_F(CompositeEngineTest, AGangWithoutHostsGoesToTheEngineThatItNames) {
  Gang unplaced = gang(1, {"", ""});
  unplaced.engine = "slurm";
  engine_.submit(unplaced);
  EXPECT_THAT(nodes_of(local_.list()), ElementsAre());
  EXPECT_THAT(nodes_of(slurm_.list()), ElementsAre("demo/1.1/0", "demo/1.1/1"));
}

TEST_F(CompositeEngineTest, EachNodeNamesTheEngineThatListsIt) {
  engine_.submit(gang(1, {"s1"}));
  engine_.submit(gang(2, {"here"}));
  const auto list = engine_.list().value();
  EXPECT_EQ(list.nodes.at(0).engine, "slurm");
  EXPECT_EQ(list.nodes.at(1).engine, "local");
}

TEST_F(CompositeEngineTest, ANodeWithoutAHostMayExistAsLongAsItsEngineGivesNoList) {
  const model::NodeName node{"", {{{"demo", 1}, 1}, 0}};
  EXPECT_FALSE(engine_.list()->may_exist(node, "", "slurm"));
  slurm_.away = "slurmctld has not answered";
  EXPECT_TRUE(engine_.list()->may_exist(node, "", "slurm"));
  EXPECT_FALSE(engine_.list()->may_exist(node, "", "local"));
}

TEST_F(CompositeEngineTest, AGangOnAHostOfAnEarlierMapDoesNotStart) {
  engine_.submit(gang(1, {"s3"}));
  EXPECT_THAT(nodes_of(engine_.list()), ElementsAre());
}

TEST_F(CompositeEngineTest, AHostThatIsNewAtOneEngineIsOnTheMapOfAll) {
  const auto before = engine_.list()->map;
  EXPECT_EQ(engine_.list()->map, before) << "the same object until it changes";
  slurm_.listed.map = std::make_shared<const map::ClusterMap>(map_of({"s2", "s3", "here"}));
  const auto map = engine_.list()->map;
  EXPECT_EQ(map::engine_of(*map, "s3"), "slurm");
  EXPECT_EQ(map::engine_of(*map, "s1"), "slurm") << "nodes may still have devices there";
  EXPECT_EQ(map::engine_of(*map, "here"), "local");
  EXPECT_EQ(map::hosts(*map).size(), 4u) << "a name that another engine has is ignored";
  engine_.submit(gang(1, {"s3"}));
  EXPECT_THAT(nodes_of(slurm_.list()), ElementsAre("demo/1.1/0"));
}

TEST_F(CompositeEngineTest, TwoEnginesWithOneHostAreRefused) {
  const auto engine = CompositeEngine::create({{local_, map_of({"s1"})}, {slurm_, map_of({"s1"})}});
  ASSERT_FALSE(engine);
  EXPECT_THAT(engine.error().message, HasSubstr("both have a host 's1'"));
}

TEST_F(CompositeEngineTest, AnEngineThatIsAwayMakesItsOwnHostsUnavailable) {
  engine_.submit(gang(1, {"s1"}));
  engine_.submit(gang(2, {"here"}));
  slurm_.away = "slurmctld has not answered";
  const auto listed = engine_.list();
  ASSERT_TRUE(listed);
  EXPECT_THAT(nodes_of(listed), ElementsAre("demo/2.1/0"));
  EXPECT_EQ(listed->why_unavailable("here"), "");
  for (const char* host : {"s1", "s2"})
    EXPECT_EQ(listed->why_unavailable(host), "the engine slurm: slurmctld has not answered");
  EXPECT_TRUE(listed->silent.empty()) << "draining attempts wait for it";
}

TEST_F(CompositeEngineTest, WithoutAnyListNothingIsKnown) {
  local_.away = "a hung file system";
  slurm_.away = "slurmctld has not answered";
  const auto listed = engine_.list();
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code, Code::unavailable);
  EXPECT_THAT(listed.error().message, HasSubstr("the engine local: a hung file system"));
  EXPECT_THAT(listed.error().message, HasSubstr("the engine slurm: slurmctld has not answered"));
}

TEST_F(CompositeEngineTest, EachEngineAnswersForItsOwnHostsAlone) {
  slurm_.listed.answered = {"s1"};
  slurm_.listed.unfit = {{"s1", "drained"}};
  slurm_.listed.silent = {"s2"};
  const auto listed = engine_.list();
  ASSERT_TRUE(listed);
  EXPECT_EQ(listed->why_unavailable("here"), "");
  EXPECT_EQ(listed->why_unavailable("s2"), kNotCalled);
  EXPECT_THAT(listed->unfit, ElementsAre(Pair("s1", "drained")));
  EXPECT_THAT(listed->silent, ElementsAre("s2"));
}

TEST_F(CompositeEngineTest, AGangOfHostsThatJoinedGoesToTheirEngineWhichHasNoMap) {
  PartForTest hosts("hosts");
  const auto owned =
      CompositeEngine::create({{local_, map_of({"here"})}, {hosts, {}, /*hosts_join=*/true}});
  CompositeEngine& engine = **owned;
  Gang joined = gang(1, {"own"});
  joined.engine = "hosts";
  engine.submit(joined);
  Gang local = gang(2, {"here"});
  local.engine = "local";
  engine.submit(local);
  Gang none = gang(3, {"away"});
  none.engine = "slurm";
  engine.submit(none);
  EXPECT_THAT(nodes_of(hosts.list()), ElementsAre("demo/1.1/0"));
  EXPECT_THAT(nodes_of(local_.list()), ElementsAre("demo/2.1/0"));
}

TEST_F(CompositeEngineTest, AHostThatJoinedAndHasNotCalledCannotBeAskedAndTheOthersCan) {
  PartForTest hosts("hosts");
  const auto owned =
      CompositeEngine::create({{local_, map_of({"here"})}, {hosts, {}, /*hosts_join=*/true}});
  hosts.listed.answered = {"own1", "own2"};
  hosts.listed.unavailable = {{"own2", "its host service has not called since 10:00"}};
  hosts.listed.silent = {"own2"};
  const auto listed = (*owned)->list();
  EXPECT_EQ(listed->why_unavailable("here"), "");
  EXPECT_EQ(listed->why_unavailable("own1"), "");
  EXPECT_THAT(listed->why_unavailable("own2"), HasSubstr("10:00"));
  EXPECT_EQ(listed->why_unavailable("own3"), kNotCalled);
  EXPECT_THAT(listed->silent, ElementsAre("own2"));
}

TEST_F(CompositeEngineTest, AKillReachesTheEngineOfTheNodeAlsoAfterARestart) {
  const auto node = *model::parse_node_name("demo/1.1/0");
  engine_.kill(node);
  EXPECT_THAT(local_.killed, ElementsAre(node));
  EXPECT_THAT(slurm_.killed, ElementsAre(node));
}

}  // namespace
}  // namespace lockstep::engine
