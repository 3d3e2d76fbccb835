#include "platform/engine/k8s/k8s_map.h"

#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "map/query.h"
#include "map/taints.h"
#include "platform/engine/k8s/node_amount.h"

namespace lockstep::engine {
namespace {

using testing::HasSubstr;

constexpr auto kGpu = "nvidia.com/gpu";

// A Node that is ready, with 8 GPUs.
Json gpu_node(const std::string& name, Json labels = Json::object()) {
  const Json amounts = {{"cpu", "63800m"}, {"memory", "2Gi"}, {kGpu, "8"}};
  return {{"metadata", {{"name", name}, {"labels", std::move(labels)}}},
          {"spec", Json::object()},
          {"status",
           {{"capacity", amounts},
            {"allocatable", amounts},
            {"addresses", Json::array({{{"type", "Hostname"}, {"address", name}},
                                       {{"type", "InternalIP"}, {"address", "10.0.0.1"}}})},
            {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}};
}

Json without_gpus(Json node) {
  node["status"]["capacity"].erase(kGpu);
  node["status"]["allocatable"].erase(kGpu);
  return node;
}

Json with_taint(Json node, const std::string& key, const std::string& effect = "NoSchedule") {
  node["spec"]["taints"] = Json::array({{{"key", key}, {"effect", effect}}});
  return node;
}

class FixedNodes : public ApiServer {
 public:
  explicit FixedNodes(ApiReply reply) : reply_(std::move(reply)) {}
  ApiReply get(const std::string&) override { return reply_; }
  ApiReply create(const std::string&, const Json&) override { return {}; }
  ApiReply remove(const std::string&, const Json&) override { return {}; }
  ApiReply watch(const std::string&, Duration,
                 const std::function<bool(const Json& event)>&) override {
    return {};
  }
  void stop() override {}

 private:
  const ApiReply reply_;
};

map::ClusterMap map_of(std::initializer_list<Json> nodes) {
  std::vector<K8sHost> hosts;
  for (const Json& node : nodes) hosts.push_back(k8s_host_of(node, kGpu));
  return map_of_k8s(hosts);
}

TEST(K8sMap, AHostHasTheDevicesOfTheResourceOrItsCores) {
  const auto map = map_of({gpu_node("n1"), without_gpus(gpu_node("n2"))});
  ASSERT_TRUE(map::check(map));
  const map::Host* gpus = map::find_host(map, "n1");
  EXPECT_EQ(map::address_of(*gpus), "10.0.0.1");
  EXPECT_EQ(map::device_count(*gpus), 8u);
  EXPECT_EQ(map::devices(*gpus)[7]->kind, map::DeviceKind::gpu);
  EXPECT_EQ(gpus->memory, 2_GiB);
  const map::Host* cores = map::find_host(map, "n2");
  EXPECT_EQ(map::device_count(*cores), 63u);
  EXPECT_EQ(map::devices(*cores)[0]->kind, map::DeviceKind::core);
}

TEST(K8sMap, PodsAndLeavesComeFromLabels) {
  const auto place = [](const char* zone, const char* block, const char* leaf) {
    return Json{{"topology.kubernetes.io/zone", zone},
                {"network.topology.nvidia.com/spine", block},
                {"network.topology.nvidia.com/leaf", leaf}};
  };
  const auto map =
      map_of({gpu_node("n1", place("a", "s1", "l1")), gpu_node("n2", place("a", "s1", "l2")),
              gpu_node("n3", place("b", "s1", "l1"))});
  ASSERT_TRUE(map::check(map));
  ASSERT_EQ(map.pods.size(), 2u);
  EXPECT_EQ(map.pods[0].name, "a/s1");
  ASSERT_EQ(map.pods[0].leaves.size(), 2u);
  EXPECT_EQ(map.pods[0].leaves[1].hosts[0].id, "n2");
  EXPECT_EQ(map.pods[1].name, "b/s1");
}

TEST(K8sMap, NodesWithoutLabelsAreInOneLeaf) {
  const auto map = map_of({gpu_node("n1"), gpu_node("n2")});
  ASSERT_EQ(map.pods.size(), 1u);
  EXPECT_EQ(map.pods[0].leaves[0].hosts.size(), 2u);
}

TEST(K8sMap, ARunCanAskForTheLabelsThatFitIntoAMap) {
  Json many = {{"kubernetes.io/arch", "amd64"}, {"empty", ""}, {"pool", "a"}};
  for (int i = 0; i < 40; ++i) many[format("feature.node.kubernetes.io/f{}", i)] = "true";
  const K8sHost host = k8s_host_of(gpu_node("n1", many), kGpu);
  EXPECT_EQ(host.labels.size(), map::kLabelsMax);
  EXPECT_EQ(host.labels.at("pool"), "a");
  EXPECT_EQ(host.labels.at("kubernetes.io/arch"), "amd64");
  EXPECT_EQ(host.labels.count("empty"), 0u);
  EXPECT_TRUE(map::check_labels(host.labels));
}

TEST(K8sMap, AHostThatIsNotReadyCannotBeAsked) {
  Json node = gpu_node("n1");
  node["status"]["conditions"][0] = {
      {"type", "Ready"}, {"status", "Unknown"}, {"message", "Kubelet stopped posting."}};
  EXPECT_EQ(k8s_host_of(node, kGpu).unavailable, "its Node is not ready: Kubelet stopped posting.");
  node["status"].erase("conditions");
  EXPECT_THAT(k8s_host_of(node, kGpu).unavailable, HasSubstr("has not reported"));
}

TEST(K8sMap, ACordonedHostOrOneWithAProblemTakesNoPodAndSaysWhy) {
  Json cordoned = gpu_node("n1");
  cordoned["spec"]["unschedulable"] = true;
  EXPECT_EQ(k8s_host_of(cordoned, kGpu).unfit,
            "it is cordoned in Kubernetes; `kubectl uncordon n1` opens it");
  const std::string problem = "node.kubernetes.io/disk-pressure";
  EXPECT_EQ(k8s_host_of(with_taint(gpu_node("n1"), problem), kGpu).unfit,
            "it has the taint node.kubernetes.io/disk-pressure:NoSchedule");
  EXPECT_EQ(k8s_host_of(with_taint(gpu_node("n1"), std::string(63, 'a')), kGpu).unfit,
            "it has the taint " + std::string(63, 'a') + ":NoSchedule");
  for (const auto& [key, effect] : {std::pair("team", "PreferNoSchedule"),
                                    {kGpu, "NoSchedule"},
                                    {"node.kubernetes.io/not-ready", "NoExecute"}})
    EXPECT_EQ(k8s_host_of(with_taint(gpu_node("n1"), key, effect), kGpu).unfit, "") << key;
}

TEST(K8sMap, ATaintThatRunsMayTolerateIsALabel) {
  const K8sHost host = k8s_host_of(with_taint(gpu_node("n1"), "team"), kGpu);
  EXPECT_EQ(host.unfit, "");
  EXPECT_EQ(map::taints_text(host.labels), "team:NoSchedule");
}

TEST(K8sMap, DevicesThatNoPodCanGetCloseTheHostButStayInTheMap) {
  Json node = gpu_node("n1");
  node["status"]["allocatable"][kGpu] = "0";
  const K8sHost host = k8s_host_of(node, kGpu);
  EXPECT_EQ(host.devices, 8);
  EXPECT_THAT(host.unfit, HasSubstr("none of its nvidia.com/gpu can be allocated"));
}

TEST(K8sMap, NodesOfTheControlPlaneAreLeftOut) {
  const Json items = Json::array(
      {gpu_node("n1"), with_taint(gpu_node("master"), "node-role.kubernetes.io/control-plane")});
  FixedNodes api({.status = 200, .object = {{"items", items}}});
  const auto map = discover_k8s(api, kGpu);
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_EQ(map::hosts(*map).size(), 1u);
}

TEST(K8sMap, AServerThatIsAwayIsNoRefusal) {
  FixedNodes away({.status = 503, .error = "later"}), refused({.status = 403, .error = "no"});
  EXPECT_EQ(discover_k8s(away, kGpu).error().code, Code::unavailable);
  EXPECT_EQ(discover_k8s(refused, kGpu).error().code, Code::denied);
}

TEST(NodeAmount, HasTheSuffixesOfKubernetes) {
  EXPECT_DOUBLE_EQ(*parse_node_amount("7910m"), 7.91);
  EXPECT_DOUBLE_EQ(*parse_node_amount("263856Ki"), 263856.0 * 1024);
  EXPECT_DOUBLE_EQ(*parse_node_amount("1e9"), 1e9);
  EXPECT_DOUBLE_EQ(*parse_node_amount("2E"), 2e18);
  EXPECT_FALSE(parse_node_amount(""));
  EXPECT_FALSE(parse_node_amount("many"));
  EXPECT_FALSE(parse_node_amount("1Xi"));
}

}  // namespace
}  // namespace lockstep::engine
