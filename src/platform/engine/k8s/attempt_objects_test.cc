#include "platform/engine/k8s/attempt_objects.h"

#include <gtest/gtest.h>

#include "platform/engine/k8s/json_fields.h"
#include "text/convert.h"

namespace lockstep::engine {
namespace {

using std::string;

const ObjectOwner kOwner{"ls-demo-7-2-abcd", "1111-2222"};

PodOptions options() {
  return {.installation = "cafe",
          .agent_image = "lockstep:1",
          .image = "pytorch:2",
          .volumes = {},
          .grace_period = std::chrono::seconds(10)};
}

Gang gang_of(int nodes) {
  Gang gang;
  gang.attempt = model::parse_node_name("0123456789abcdef:demo/7.2/0").value().attempt();
  gang.program.command = {"train", "--lr=$(LR)"};
  gang.program.token = "token-of-the-agents";
  gang.program.secret = "secret-of-the-attempt";
  gang.program.time_left = std::chrono::hours(1);
  gang.program.attempt.emplace();
  gang.program.attempt->spec.command = gang.program.command;
  gang.devices_per_node = 2;
  for (int index = 0; index < nodes; ++index) {
    NodePlacement node;
    node.index = index;
    node.host = node.address = "gpu-" + std::to_string(index);
    node.devices = {4, 5};
    node.gpus = true;
    node.device_uuids = {"GPU-a", "GPU-b"};
    gang.nodes.push_back(node);
    gang.program.attempt->devices.push_back({node.host, node.devices});
  }
  return gang;
}

Json pod_of(const Gang& gang, const PodOptions& with = options()) {
  return pod_object(gang, gang.nodes[0], kOwner, with);
}

const Json& container_of(const Json& pod) { return items_of(pod, {"spec", "containers"}).at(0); }

host::LaunchSpec launch_of(const Gang& gang) {
  const Json secret = secret_object(gang, gang.nodes[0], kOwner, options(), "{}");
  const auto json = parse_json(text_of(secret, {"stringData", "launch.json"}));
  return from_json<host::LaunchSpec>(json.value()).value();
}

TEST(AttemptObjects, NamesFitTheRulesOfDnsLabelsAndDifferWithTheDaemon) {
  model::AttemptName attempt = gang_of(1).attempt;
  EXPECT_TRUE(attempt_object_name("cafe", attempt).starts_with("ls-demo-7-2-"));
  EXPECT_NE(attempt_object_name("cafe", attempt), attempt_object_name("beef", attempt));
  attempt.id.run.project = string(64, 'X') + "_.y";
  const string longest = pod_name(attempt_object_name("cafe", attempt), 99'999);
  EXPECT_LE(longest.size(), 63U);
  EXPECT_EQ(longest.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), string::npos);
}

TEST(AttemptObjects, APodIsPinnedToItsHostAndLimitedToItsDevices) {
  const Json pod = pod_of(gang_of(1));
  const Json& terms =
      items_of(pod, {"spec", "affinity", "nodeAffinity",
                     "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"});
  EXPECT_EQ(terms.dump(),
            R"([{"matchFields":[{"key":"metadata.name","operator":"In","values":["gpu-0"]}]}])");
  EXPECT_EQ(field_of(container_of(pod), {"resources", "limits"}).dump(), R"({"nvidia.com/gpu":2})");
  EXPECT_EQ(text_of(pod, {"spec", "restartPolicy"}), "Never");
}

TEST(AttemptObjects, DevicesThatAreCoresAreRequestedWithTheNeedsOfTheRun) {
  Gang gang = gang_of(1);
  gang.nodes[0].gpus = false;
  gang.program.attempt->spec.needs.memory = 2_GiB;
  EXPECT_EQ(field_of(container_of(pod_of(gang)), {"resources"}).dump(),
            R"({"requests":{"memory":"2147483648","cpu":2}})");
}

TEST(AttemptObjects, SecretsAreInTheSecretAndNowhereElse) {
  const Gang gang = gang_of(1);
  const string elsewhere = owner_object(gang, options()).dump() + pod_of(gang).dump();
  EXPECT_EQ(elsewhere.find("token-of"), string::npos);
  EXPECT_EQ(elsewhere.find("secret-of"), string::npos);
  EXPECT_EQ(launch_of(gang).token, "token-of-the-agents");
  EXPECT_EQ(launch_of(gang).secret, "secret-of-the-attempt");
}

TEST(AttemptObjects, TheLaunchHasTheDevicesAndFoldersOfThePod) {
  const host::LaunchSpec launch = launch_of(gang_of(1));
  EXPECT_EQ(launch.devices, (std::vector{0, 1}));
  EXPECT_TRUE(launch.device_uuids.empty());
  EXPECT_TRUE(launch.node_folder.starts_with("/lockstep/home/runs/")) << launch.node_folder;
  EXPECT_EQ(launch.daemon_file, "/lockstep/launch/daemon.json");
}

TEST(AttemptObjects, TheImageOfTheRunIsThatOfThePodAndNotOfItsAgent) {
  Gang gang = gang_of(1);
  EXPECT_EQ(text_of(container_of(pod_of(gang)), {"image"}), "pytorch:2");
  gang.program.software = {.kind = model::SoftwareKind::image, .name = "mine:3"};
  EXPECT_EQ(text_of(container_of(pod_of(gang)), {"image"}), "mine:3");
  EXPECT_FALSE(launch_of(gang).software);
}

TEST(AttemptObjects, ARunWithoutAnImageIsRefusedIfTheDaemonHasNone) {
  PodOptions none = options();
  none.image.clear();
  EXPECT_TRUE(check_gang(gang_of(1), options()));
  const auto checked = check_gang(gang_of(1), none);
  ASSERT_FALSE(checked);
  EXPECT_TRUE(checked.error().message.find("image") != string::npos);
}

TEST(AttemptObjects, TheSectionKubernetesOfTheRunIsInThePod) {
  Gang gang = gang_of(1);
  gang.program.attempt->spec.kubernetes = {.service_account = "trainer",
                                           .shared_memory = "64Gi",
                                           .volumes = {"pvc:data:/data"},
                                           .tolerations = {"spot:NoSchedule"},
                                           .node_selector = {{"pool", "a"}},
                                           .resources = {{"rdma/hca", 1}},
                                           .host_network = true};
  const Json pod = pod_of(gang);
  EXPECT_EQ(text_of(pod, {"spec", "serviceAccountName"}), "trainer");
  EXPECT_EQ(field_of(pod, {"spec", "hostNetwork"}), true);
  EXPECT_EQ(field_of(pod, {"spec", "nodeSelector"}).dump(), R"({"pool":"a"})");
  EXPECT_EQ(items_of(pod, {"spec", "tolerations"}).size(), 2U);
  const Json& volumes = items_of(pod, {"spec", "volumes"});
  EXPECT_EQ(text_of(volumes.back(), {"persistentVolumeClaim", "claimName"}), "data");
  EXPECT_NE(volumes.dump().find(R"("sizeLimit":"64Gi")"), string::npos);
  EXPECT_EQ(field_of(container_of(pod), {"resources", "limits"}).dump(),
            R"({"nvidia.com/gpu":2,"rdma/hca":1})");
}

TEST(AttemptObjects, APodThatNamesNoServiceAccountGetsNoToken) {
  EXPECT_EQ(field_of(pod_of(gang_of(1)), {"spec", "automountServiceAccountToken"}), false);
}

TEST(AttemptObjects, EachObjectNamesItsOwnerAndItsDaemon) {
  const Gang gang = gang_of(1);
  for (const Json& object :
       {pod_of(gang), secret_object(gang, gang.nodes[0], kOwner, options(), "{}")}) {
    EXPECT_EQ(text_of(items_of(object, {"metadata", "ownerReferences"}).at(0), {"uid"}),
              kOwner.uid);
    EXPECT_EQ(text_of(object, {"metadata", "labels", kDaemonLabel}), "cafe");
  }
}

TEST(AttemptObjects, AnotherDaemonReadsTheNodeAndItsRecord) {
  const Gang gang = gang_of(2);
  EXPECT_EQ(node_of_pod(pod_of(gang)), node_name(gang, gang.nodes[0]));
  const Json owner = owner_object(gang, options());
  EXPECT_EQ(attempt_of_owner(owner), gang.attempt);
  const auto records = records_of_owner(owner, options());
  ASSERT_EQ(records.size(), 2U);
  const LaunchRecord& second = records.at(node_name(gang, gang.nodes[1]));
  EXPECT_EQ(second.host, "gpu-1");
  EXPECT_EQ(second.devices, (std::vector{4, 5}));
  EXPECT_EQ(second.attempt, gang.program.attempt);
}

Gang gang_with_variable() {
  Gang gang = gang_of(1);
  gang.program.env = gang.program.attempt->spec.env = {{"API_KEY", "hidden-value"}};
  return gang;
}

TEST(AttemptObjects, VariablesOfTheRunAreSealedInTheRecord) {
  const Gang gang = gang_with_variable();
  PodOptions with = options();
  with.record_secret = net::Secret::random();
  const Json owner = owner_object(gang, with);
  EXPECT_EQ(owner.dump().find("hidden-value"), string::npos);
  EXPECT_EQ(owner.dump().find("API_KEY"), string::npos);
  EXPECT_EQ(records_of_owner(owner, with).begin()->second.attempt, gang.program.attempt);
}

TEST(AttemptObjects, ADaemonWithAnotherKeyKnowsTheNodesAndAdoptsNothing) {
  PodOptions with = options();
  with.record_secret = net::Secret::random();
  const Json owner = owner_object(gang_with_variable(), with);
  with.record_secret = net::Secret::random();
  for (const PodOptions& other : {with, options()}) {
    const auto records = records_of_owner(owner, other);
    EXPECT_EQ(records.begin()->second.host, "gpu-0");
    EXPECT_FALSE(records.begin()->second.attempt);
    EXPECT_TRUE(records.begin()->second.error.find("key") != string::npos);
  }
}

TEST(AttemptObjects, ThePodOfAProjectHasItsAccountAndIsNeverRoot) {
  PodOptions with = options();
  with.project = {.service_account = "trainer", .run_as_user = 2001};
  const Json pod = pod_of(gang_of(1), with);
  EXPECT_EQ(text_of(pod, {"spec", "serviceAccountName"}), "trainer");
  EXPECT_EQ(field_of(pod, {"spec", "securityContext"}).dump(),
            R"({"runAsUser":2001,"runAsGroup":2001,"runAsNonRoot":true,"fsGroup":2001})");
  const string locked = R"({"allowPrivilegeEscalation":false})";
  EXPECT_EQ(field_of(container_of(pod), {"securityContext"}).dump(), locked);
  EXPECT_EQ(items_of(pod, {"spec", "initContainers"}).at(0).at("securityContext").dump(), locked);
}

TEST(AttemptObjects, ARunCannotTakeAnotherAccountThanThatOfItsProject) {
  Gang gang = gang_of(1);
  gang.program.attempt->spec.kubernetes = model::PodRequest{.service_account = "admin"};
  PodOptions with = options();
  EXPECT_TRUE(check_gang(gang, with));
  with.project = {.service_account = "trainer"};
  const auto checked = check_gang(gang, with);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message,
            "kubernetes.service_account: the Pods of the project demo have the service account "
            "trainer, got admin; leave the field out");
}

TEST(AttemptObjects, ObjectsOfOthersAreNoNodes) {
  EXPECT_FALSE(node_of_pod(Json::object()));
  EXPECT_FALSE(attempt_of_owner(Json{{"metadata", {{"annotations", 7}}}}));
}

}  // namespace
}  // namespace lockstep::engine
