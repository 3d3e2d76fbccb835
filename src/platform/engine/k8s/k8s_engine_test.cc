#include "platform/engine/k8s/k8s_engine.h"

#include <gtest/gtest.h>

#include "map/query.h"
#include "platform/engine/k8s/fake_api_server_for_test.h"
#include "platform/engine/local/eventually_for_test.h"

namespace lockstep::engine {
namespace {

using model::EndBlame;
using model::NodePhase;
using std::chrono::milliseconds;

const std::string kPods = "/api/v1/namespaces/ml/pods";
const std::string kOwners = "/api/v1/namespaces/ml/configmaps";
const std::string kSecrets = "/api/v1/namespaces/ml/secrets";
const std::string kEvents = "/api/v1/namespaces/ml/events";
const std::string kNodes = "/api/v1/nodes";

Json node_object(const std::string& name, bool is_ready) {
  const Json amounts = {{"cpu", "8"}, {"nvidia.com/gpu", "2"}};
  return {{"metadata", {{"name", name}}},
          {"status",
           {{"capacity", amounts},
            {"allocatable", amounts},
            {"conditions",
             Json::array({{{"type", "Ready"}, {"status", is_ready ? "True" : "False"}}})}}}};
}

class K8sEngineTest : public testing::Test {
 protected:
  K8sEngineTest() {
    cluster_.put(kNodes, node_object("n1", true));
    cluster_.put(kNodes, node_object("n2", true));
    gang_.attempt = model::parse_node_name("0123456789abcdef:demo/1.1/0").value().attempt();
    gang_.program.attempt.emplace();
    for (int index = 0; index < 2; ++index) {
      NodePlacement node;
      node.index = index;
      node.host = "n" + std::to_string(index + 1);
      node.devices = {0};
      gang_.program.attempt->devices.push_back({node.host, node.devices});
      gang_.nodes.push_back(node);
    }
  }

  std::unique_ptr<K8sEngine> make_engine(const std::string& daemon_file = "{}") {
    auto engine = std::make_unique<K8sEngine>(
        K8sEngine::Setup{.nodes = std::make_shared<FakeApiServer>(cluster_),
                         .namespaces = access_to(namespaces_),
                         .options = {.installation = "cafe",
                                     .agent_image = "lockstep:1",
                                     .image = "pytorch:2",
                                     .volumes = {}},
                         .projects = projects_,
                         .bounds = {.start_limit = start_limit_,
                                    .silent_after = milliseconds(0),
                                    .list_age_max = milliseconds(200),
                                    .ended_kept = ended_kept_,
                                    .unknown_kept = unknown_kept_,
                                    .slow_start = milliseconds(1),
                                    .warnings_interval = milliseconds(5),
                                    .watch = {.idle = std::chrono::seconds(5),
                                              .pause_first = milliseconds(4),
                                              .pause_max = milliseconds(20)}}});
    if (!daemon_file.empty()) engine->announce(daemon_file);
    return engine;
  }
  std::vector<NamespaceAccess> access_to(const std::vector<std::string>& names) {
    std::vector<NamespaceAccess> access;
    for (const std::string& name : names)
      access.push_back({.name = name,
                        .calls = std::make_shared<FakeApiServer>(cluster_),
                        .pods = std::make_shared<FakeApiServer>(cluster_)});
    return access;
  }
  // The project of the gang has this namespace, besides that of the daemon.
  void give_project(const std::string& name) {
    projects_.projects["demo"] = {.in_namespace = name};
    namespaces_ = {"ml", name};
  }
  model::NodeName node(int index) const {
    return node_name(gang_, gang_.nodes[static_cast<std::size_t>(index)]);
  }
  std::string pod_path(int index) const {
    return kPods + "/" + pod_name(attempt_object_name("cafe", gang_.attempt), index);
  }
  static std::optional<model::Observation> seen_by(K8sEngine& engine, const model::NodeName& node) {
    const auto listed = engine.list();
    if (!listed) return std::nullopt;
    const auto found = std::ranges::find(listed->nodes, node, &ListedNode::node);
    return found == listed->nodes.end() ? std::nullopt : std::optional(found->seen);
  }
  static bool reaches(K8sEngine& engine, const model::NodeName& node, NodePhase phase,
                      const std::string& reason = "", EndBlame blame = EndBlame::unknown) {
    return eventually([&] {
      const auto seen = seen_by(engine, node);
      return seen && seen->phase == phase && seen->blame == blame &&
             seen->reason.find(reason) != std::string::npos;
    });
  }
  bool has_pods(std::size_t count) {
    return eventually([&] { return cluster_.paths(kPods).size() == count; });
  }
  void run_pod(int index, const std::string& host) {
    Json pod = cluster_.object(pod_path(index));
    pod["spec"]["nodeName"] = host;
    pod["status"] = {{"phase", "Running"}};
    cluster_.put(kPods, pod);
  }
  // Its volumes are being mounted, as far as its status tells.
  void create_containers_of(int index, const std::string& host) {
    Json pod = cluster_.object(pod_path(index));
    pod["spec"]["nodeName"] = host;
    pod["status"] = {
        {"phase", "Pending"},
        {"containerStatuses",
         Json::array(
             {{{"name", "node"}, {"state", {{"waiting", {{"reason", "ContainerCreating"}}}}}}})}};
    cluster_.put(kPods, pod);
  }
  void warn_of(int index, const std::string& message) {
    const std::string uid = text_of(cluster_.object(pod_path(index)), {"metadata", "uid"});
    cluster_.put(kEvents, {{"metadata", {{"name", "event"}}},
                           {"involvedObject", {{"uid", uid}}},
                           {"reason", "FailedMount"},
                           {"message", message}});
  }
  void run_both(K8sEngine& engine) {
    engine.submit(gang_);
    ASSERT_TRUE(has_pods(2));
    run_pod(0, "n1");
    run_pod(1, "n2");
    ASSERT_TRUE(reaches(engine, node(0), NodePhase::present));
    ASSERT_TRUE(reaches(engine, node(1), NodePhase::present));
  }

  FakeCluster cluster_;
  Gang gang_;
  std::vector<std::string> namespaces_ = {"ml"};
  k8s::ProjectTable projects_;
  Duration start_limit_ = std::chrono::minutes(5);
  Duration ended_kept_ = std::chrono::minutes(5), unknown_kept_ = std::chrono::minutes(5);
};

TEST_F(K8sEngineTest, AGangIsAnOwnerAndASecretAndAPodForEachNode) {
  const auto engine = make_engine();
  engine->submit(gang_);
  EXPECT_TRUE(has_pods(2));
  EXPECT_EQ(cluster_.paths(kOwners).size(), 1U);
  EXPECT_EQ(cluster_.paths(kSecrets).size(), 2U);
  EXPECT_TRUE(reaches(*engine, node(1), NodePhase::pending, "kube-scheduler"));
}

TEST_F(K8sEngineTest, ANodeIsListedFromItsSubmissionUntilItIsGone) {
  const auto engine = make_engine("");
  EXPECT_TRUE(eventually([&] { return engine->list().has_value(); }));
  engine->submit(gang_);
  EXPECT_EQ(seen_by(*engine, node(0))->phase, NodePhase::pending);
  engine->announce("{}");
  EXPECT_TRUE(has_pods(2));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(seen_by(*engine, node(0)));
}

TEST_F(K8sEngineTest, ARepeatedSubmissionMakesNothingTwice) {
  const auto engine = make_engine();
  run_both(*engine);
  engine->submit(gang_);
  engine->submit(gang_);
  EXPECT_EQ(cluster_.count("POST " + kPods), 2);
}

TEST_F(K8sEngineTest, AnAnswerThatIsLostLeavesOnePod) {
  for (int i = 0; i < 5; ++i) cluster_.fail_next("POST", {.error = "cut off"}, /*does=*/true);
  const auto engine = make_engine();
  engine->submit(gang_);
  EXPECT_TRUE(has_pods(2));
  EXPECT_TRUE(reaches(*engine, node(1), NodePhase::pending, "kube-scheduler"));
  EXPECT_EQ(cluster_.paths(kSecrets).size(), 2U);
}

TEST_F(K8sEngineTest, CallsWaitWhileTheServerFailsAndSayWhy) {
  for (int i = 0; i < 3; ++i)
    cluster_.fail_next("POST", {.status = 429, .error = "too many requests"});
  for (int status : {500, 503, 401})
    cluster_.fail_next("POST", {.status = status, .error = "not now"});
  const auto engine = make_engine();
  engine->submit(gang_);
  EXPECT_TRUE(has_pods(2));
}

TEST_F(K8sEngineTest, ARefusedPodIsGoneAndNoFurtherOneIsMade) {
  const auto engine = make_engine();
  EXPECT_TRUE(eventually([&] { return engine->list().has_value(); }));
  cluster_.fail_next("POST " + kPods, {.status = 403, .error = "exceeded quota: gpus"});
  engine->submit(gang_);
  EXPECT_TRUE(reaches(*engine, node(0), NodePhase::gone, "quota: gpus", EndBlame::engine));
  EXPECT_TRUE(reaches(*engine, node(1), NodePhase::gone, "quota: gpus", EndBlame::engine));
  EXPECT_TRUE(cluster_.paths(kPods).empty());
}

TEST_F(K8sEngineTest, APodThatOthersDeleteWasTakenBack) {
  const auto engine = make_engine();
  run_both(*engine);
  cluster_.drop(kPods, pod_path(1).substr(kPods.size() + 1));
  EXPECT_TRUE(reaches(*engine, node(1), NodePhase::gone, "not by Lockstep", EndBlame::preemption));
  EXPECT_EQ(seen_by(*engine, node(0))->phase, NodePhase::present);
}

TEST_F(K8sEngineTest, AKilledPodIsDeletedWithASecondOfGraceAndItsUid) {
  const auto engine = make_engine();
  run_both(*engine);
  const std::string uid = text_of(cluster_.object(pod_path(0)), {"metadata", "uid"});
  engine->kill(node(0));
  EXPECT_TRUE(has_pods(1));
  EXPECT_EQ(field_of(cluster_.last_options(), {"gracePeriodSeconds"}), 1);
  EXPECT_EQ(text_of(cluster_.last_options(), {"preconditions", "uid"}), uid);
  EXPECT_TRUE(reaches(*engine, node(0), NodePhase::gone));
}

TEST_F(K8sEngineTest, NothingIsMadeForANodeThatIsKilledBefore) {
  const auto engine = make_engine("");
  engine->submit(gang_);
  engine->kill(node(0));
  EXPECT_FALSE(seen_by(*engine, node(0)));
  engine->announce("{}");
  EXPECT_TRUE(has_pods(1));
  EXPECT_EQ(cluster_.paths(kPods)[0], pod_path(1));
}

TEST_F(K8sEngineTest, AnotherDaemonFindsThePodsWithTheirRecords) {
  {
    const auto first = make_engine();
    run_both(*first);
  }
  const auto second = make_engine();
  EXPECT_TRUE(reaches(*second, node(1), NodePhase::present));
  const auto listed = second->list();
  ASSERT_EQ(listed->nodes.size(), 2U);
  ASSERT_TRUE(listed->nodes[1].record);
  EXPECT_EQ(listed->nodes[1].record->host, "n2");
  EXPECT_EQ(listed->nodes[1].record->attempt, gang_.program.attempt);
}

TEST_F(K8sEngineTest, AGangThatAnEarlierDaemonMadeInPartIsCompleted) {
  {
    const auto first = make_engine();
    first->submit(gang_);
    EXPECT_TRUE(has_pods(2));
  }
  cluster_.drop(kPods, pod_path(1).substr(kPods.size() + 1));
  const auto second = make_engine();
  second->submit(gang_);
  EXPECT_TRUE(has_pods(2));
  EXPECT_EQ(cluster_.count("POST " + kOwners), 2);
}

TEST_F(K8sEngineTest, APodBelowOneThatExistsIsNotMadeAgain) {
  {
    const auto first = make_engine();
    first->submit(gang_);
    EXPECT_TRUE(has_pods(2));
  }
  cluster_.drop(kPods, pod_path(0).substr(kPods.size() + 1));
  const auto second = make_engine();
  second->submit(gang_);
  EXPECT_TRUE(eventually([&] { return cluster_.count("POST " + kOwners) == 2; }));
  EXPECT_TRUE(eventually([&] { return !seen_by(*second, node(0)); }));
  EXPECT_EQ(cluster_.count("POST " + kPods), 2);
}

TEST_F(K8sEngineTest, TheOwnerIsDeletedAfterTheEndOfAllPods) {
  ended_kept_ = milliseconds(20);
  const auto engine = make_engine();
  run_both(*engine);
  cluster_.set_status(pod_path(0), {{"phase", "Succeeded"}});
  EXPECT_TRUE(reaches(*engine, node(0), NodePhase::gone));
  EXPECT_EQ(cluster_.paths(kOwners).size(), 1U);
  cluster_.set_status(pod_path(1), {{"phase", "Succeeded"}});
  EXPECT_TRUE(eventually([&] { return cluster_.paths(kOwners).empty(); }));
  EXPECT_EQ(text_of(cluster_.last_options(), {"propagationPolicy"}), "Background");
  EXPECT_TRUE(eventually([&] { return engine->list()->nodes.empty(); }));
}

TEST_F(K8sEngineTest, AnOwnerWithoutPodsOfAnEarlierDaemonIsDeleted) {
  unknown_kept_ = milliseconds(20);
  Json owner = owner_object(gang_, {.installation = "cafe", .agent_image = "a"});
  owner["metadata"]["uid"] = "old";
  cluster_.put(kOwners, owner);
  const auto engine = make_engine();
  EXPECT_TRUE(eventually([&] { return cluster_.paths(kOwners).empty(); }));
}

TEST_F(K8sEngineTest, APodThatCannotStartIsGivenUpAfterTheLimit) {
  start_limit_ = milliseconds(30);
  const auto engine = make_engine();
  engine->submit(gang_);
  ASSERT_TRUE(has_pods(2));
  Json pod = cluster_.object(pod_path(0));
  pod["spec"]["nodeName"] = "n1";
  pod["status"] = {{"phase", "Pending"},
                   {"containerStatuses",
                    Json::array({{{"name", "node"},
                                  {"image", "missing:1"},
                                  {"state", {{"waiting", {{"reason", "ImagePullBackOff"}}}}}}})}};
  cluster_.put(kPods, pod);
  EXPECT_TRUE(reaches(*engine, node(0), NodePhase::gone, "image missing:1", EndBlame::refusal));
  EXPECT_EQ(cluster_.paths(kPods).size(), 1U);
}

TEST_F(K8sEngineTest, APodThatCannotMountIsPendingWithItsEventAndIsGivenUp) {
  start_limit_ = milliseconds(60);
  const auto engine = make_engine();
  engine->submit(gang_);
  ASSERT_TRUE(has_pods(2));
  create_containers_of(0, "n1");
  create_containers_of(1, "n2");
  warn_of(0, "MountVolume.SetUp failed for volume \"v\" : secret \"aws\" not found");
  EXPECT_TRUE(
      reaches(*engine, node(0), NodePhase::gone, "secret \"aws\" not found", EndBlame::refusal));
  EXPECT_EQ(seen_by(*engine, node(1))->phase, NodePhase::starting);
}

TEST_F(K8sEngineTest, AWarningIsForgottenWhenThePodStarts) {
  const auto engine = make_engine();
  engine->submit(gang_);
  ASSERT_TRUE(has_pods(2));
  create_containers_of(0, "n1");
  warn_of(0, "secret \"aws\" not found");
  EXPECT_TRUE(reaches(*engine, node(0), NodePhase::pending, "FailedMount: secret"));
  run_pod(0, "n1");
  EXPECT_TRUE(reaches(*engine, node(0), NodePhase::present));
  EXPECT_EQ(seen_by(*engine, node(0))->reason, "");
}

TEST_F(K8sEngineTest, WithoutTheRightToListEventsPodsStart) {
  const auto engine = make_engine();
  for (int i = 0; i < 1000; ++i)
    cluster_.fail_next("GET " + kEvents, {.status = 403, .error = "events is forbidden"});
  engine->submit(gang_);
  ASSERT_TRUE(has_pods(2));
  create_containers_of(0, "n1");
  EXPECT_TRUE(eventually([&] { return cluster_.count("GET " + kEvents) > 1; }));
  run_pod(0, "n1");
  EXPECT_TRUE(reaches(*engine, node(0), NodePhase::present));
}

TEST_F(K8sEngineTest, ANodeThatIsNotReadyCannotBeAskedAndItsPodsAreAsTheyWere) {
  const auto engine = make_engine();
  run_both(*engine);
  cluster_.put(kNodes, node_object("n2", false));
  EXPECT_TRUE(eventually([&] { return !engine->list()->why_unavailable("n2").empty(); }));
  EXPECT_TRUE(engine->list()->silent.contains("n2"));
  EXPECT_EQ(seen_by(*engine, node(1))->phase, NodePhase::present);
  cluster_.put(kNodes, node_object("n2", true));
  EXPECT_TRUE(eventually([&] { return engine->list()->why_unavailable("n2").empty(); }));
}

TEST_F(K8sEngineTest, ANewNodeIsOnTheMapOnceItHasDevices) {
  const auto engine = make_engine();
  const auto hosts = [&] { return map::hosts(*engine->list()->map).size(); };
  EXPECT_TRUE(eventually([&] { return engine->list()->map && hosts() == 2; }));
  const auto before = engine->list()->map;
  Json fresh = node_object("n3", true);
  fresh["status"]["capacity"] = fresh["status"]["allocatable"] = {{"cpu", "8"}};
  cluster_.put(kNodes, fresh);
  cluster_.put(kNodes, node_object("n4", true));
  EXPECT_TRUE(eventually([&] { return hosts() == 3; }));
  EXPECT_NE(engine->list()->map, before);
  cluster_.put(kNodes, node_object("n3", true));
  EXPECT_TRUE(eventually([&] { return hosts() == 4; }));
  const auto whole = engine->list()->map;
  cluster_.put(kNodes, node_object("n3", false));
  EXPECT_TRUE(eventually([&] { return !engine->list()->why_unavailable("n3").empty(); }));
  EXPECT_EQ(engine->list()->map, whole) << "a state is no change of the map";
}

TEST_F(K8sEngineTest, ThePodsOfADeletedNodeAreGone) {
  const auto engine = make_engine();
  run_both(*engine);
  cluster_.drop(kNodes, "n2");
  EXPECT_TRUE(reaches(*engine, node(1), NodePhase::gone, "n2 was deleted", EndBlame::host));
  EXPECT_FALSE(engine->list()->why_closed("n2").empty());
}

TEST_F(K8sEngineTest, WhileTheServerIsAwayTheListFailsAndNothingIsGone) {
  const auto engine = make_engine();
  run_both(*engine);
  cluster_.set_away("no route to host");
  EXPECT_TRUE(eventually([&] { return !engine->list().has_value(); }));
  const Error error = engine->list().error();
  EXPECT_EQ(error.code, Code::unavailable);
  EXPECT_NE(error.message.find("no route to host"), std::string::npos);
  cluster_.set_away("");
  EXPECT_TRUE(reaches(*engine, node(0), NodePhase::present));
}

TEST_F(K8sEngineTest, AForgottenVersionIsListedAgain) {
  const auto engine = make_engine();
  run_both(*engine);
  const auto lists = cluster_.count("GET " + kPods);
  cluster_.forget();
  EXPECT_TRUE(eventually([&] { return cluster_.count("GET " + kPods) > lists; }));
  cluster_.set_status(pod_path(0), {{"phase", "Succeeded"}});
  EXPECT_TRUE(reaches(*engine, node(0), NodePhase::gone));
}

TEST_F(K8sEngineTest, AGangWithoutAnImageIsGoneWithTheRemedy) {
  const auto engine = std::make_unique<K8sEngine>(
      K8sEngine::Setup{.nodes = std::make_shared<FakeApiServer>(cluster_),
                       .namespaces = access_to({"ml"}),
                       .options = {.installation = "cafe", .agent_image = "a"},
                       .projects = {},
                       .bounds = {}});
  engine->submit(gang_);
  EXPECT_TRUE(reaches(*engine, node(0), NodePhase::gone, "--image", EndBlame::refusal));
}

TEST_F(K8sEngineTest, AProjectWithANamespaceHasItsObjectsThere) {
  give_project("team");
  const auto engine = make_engine();
  engine->submit(gang_);
  EXPECT_TRUE(
      eventually([&] { return cluster_.paths("/api/v1/namespaces/team/pods").size() == 2; }));
  EXPECT_EQ(cluster_.paths("/api/v1/namespaces/team/secrets").size(), 2U);
  EXPECT_TRUE(cluster_.paths(kPods).empty());
  EXPECT_TRUE(cluster_.paths(kOwners).empty());
}

TEST_F(K8sEngineTest, AGangIsNotMadeAgainAfterItsProjectHasMoved) {
  const auto before = make_engine();
  run_both(*before);
  give_project("team");
  const auto after = make_engine();
  EXPECT_TRUE(reaches(*after, node(0), NodePhase::present));
  after->submit(gang_);
  after->kill(node(0));
  EXPECT_TRUE(has_pods(1));
  EXPECT_TRUE(cluster_.paths("/api/v1/namespaces/team/pods").empty());
}

TEST_F(K8sEngineTest, ANamespaceThatIsRefusedDelaysOtherProjectsByNothing) {
  give_project("team");
  cluster_.refuse("/api/v1/namespaces/team/", "pods is forbidden in team");
  const auto engine = make_engine();
  engine->submit(gang_);
  EXPECT_TRUE(reaches(*engine, node(0), NodePhase::pending, "pods is forbidden in team"));
  EXPECT_TRUE(engine->list()->unknown_projects.contains("demo"));
  EXPECT_TRUE(engine->list()->may_exist(node(0), "n1", "k8s"));
  gang_.attempt.id.run.project = "other";
  engine->submit(gang_);
  EXPECT_TRUE(has_pods(2));
  cluster_.refuse("/api/v1/namespaces/team/", "");
  EXPECT_TRUE(
      eventually([&] { return cluster_.paths("/api/v1/namespaces/team/pods").size() == 2; }));
  EXPECT_TRUE(eventually([&] {
    const auto listed = engine->list();
    return listed && listed->unknown_projects.empty();
  }));
}

TEST_F(K8sEngineTest, ASubmissionToARefusedNamespaceEndsAfterTheStartLimit) {
  give_project("team");
  start_limit_ = milliseconds(1);
  cluster_.refuse("/api/v1/namespaces/team/", "pods is forbidden in team");
  const auto engine = make_engine();
  engine->submit(gang_);
  EXPECT_TRUE(reaches(*engine, node(0), NodePhase::gone, "is forbidden", EndBlame::engine));
}

TEST_F(K8sEngineTest, AProjectWithoutAnEntryIsRefusedIfTheTableSaysSo) {
  projects_.refuse_others = true;
  const auto engine = make_engine();
  engine->submit(gang_);
  EXPECT_TRUE(reaches(*engine, node(0), NodePhase::gone, "has no namespace", EndBlame::refusal));
  EXPECT_TRUE(cluster_.paths(kOwners).empty());
}

}  // namespace
}  // namespace lockstep::engine
