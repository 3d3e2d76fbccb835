#include "platform/engine/k8s/attempt_objects.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <utility>

#include "base/format.h"
#include "net/sealed_text.h"
#include "platform/engine/k8s/json_fields.h"
#include "platform/engine/local/agent_program.h"
#include "platform/host/node_files.h"
#include "platform/k8s/toleration.h"
#include "platform/k8s/workload.h"
#include "text/convert.h"

namespace lockstep::engine {
namespace {

using std::chrono::ceil;
using std::chrono::seconds;

constexpr std::size_t kReadablePartMax = 44;
constexpr std::size_t kHashDigits = 8;
constexpr int kSecretMode = 0600;
// Beyond the time limit of the run, which the agent enforces: for the image, the start, the last
// logs.
constexpr Duration kPodTimeMargin = std::chrono::minutes(30);
// From SIGTERM to the agent, beyond the grace period of its ranks.
constexpr Duration kPodGraceMargin = seconds(20);

constexpr auto kNodeAnnotation = "lockstep.dev/node";
constexpr auto kAttemptAnnotation = "lockstep.dev/attempt-name";
constexpr auto kAttemptData = "attempt.json";
constexpr auto kVariablesData = "sealed-variables";
constexpr auto kOldVariablesData = "has-variables";  // of 0.1: the record lacks them
constexpr auto kLaunchData = "launch.json";
constexpr auto kDaemonData = "daemon.json";

constexpr std::string_view kProgramFolder = "/lockstep/program";
constexpr std::string_view kLaunchFolder = "/lockstep/launch";
constexpr std::string_view kAgentFile = "/lockstep/program/bin/lockstep";
constexpr auto kPodAddress = "LOCKSTEP_POD_ADDRESS";

// The text in the characters of DNS labels.
std::string lower_dns(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    result += is_upper ? static_cast<char>(c - 'A' + 'a') : is_plain ? c : '-';
  }
  return result;
}

Json labels_of(const std::string& attempt_object, const PodOptions& options) {
  return {{"app.kubernetes.io/managed-by", "lockstep"},
          {std::string(kDaemonLabel), options.installation},
          {std::string(kAttemptLabel), attempt_object}};
}

Json owner_references(const ObjectOwner& owner) {
  return Json::array(
      {{{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"name", owner.name}, {"uid", owner.uid}}});
}

// A Secret is never read again: its name has the owner's UID, so that one of an earlier owner is
// another one.
std::string secret_name(const NodePlacement& node, const ObjectOwner& owner) {
  return format("{}-{}", pod_name(owner.name, node.index),
                net::sha256_hex(owner.uid).substr(0, kHashDigits));
}

const model::RunSpec* spec_of(const Gang& gang) {
  return gang.program.attempt ? &gang.program.attempt->spec : nullptr;
}

// The section `kubernetes` of the run. It has been checked.
model::PodRequest request_of(const Gang& gang) {
  const model::RunSpec* spec = spec_of(gang);
  return spec ? spec->kubernetes.value_or(model::PodRequest()) : model::PodRequest();
}

// Those of the daemon with what the run asks for.
PodOptions options_of(const Gang& gang, PodOptions options) {
  const model::PodRequest request = request_of(gang);
  options.shared_memory = request.shared_memory.value_or(options.shared_memory);
  for (const std::string& words : request.volumes)
    if (auto volume = k8s::parse_volume(words)) options.volumes.push_back(*std::move(volume));
  return options;
}

std::string image_of(const Gang& gang, const PodOptions& options) {
  const auto& software = gang.program.software;
  const bool names_image = software && software->kind == model::SoftwareKind::image;
  return names_image ? software->name : options.image;
}

// Kubernetes chooses the devices of a Pod, which has no others, and sets its address.
host::LaunchSpec launch_in_pod(const Gang& gang, const NodePlacement& node) {
  host::LaunchSpec launch = launch_spec(gang, node, kPodHome);
  launch.daemon_file = (std::filesystem::path(kLaunchFolder) / kDaemonData).string();
  std::iota(launch.devices.begin(), launch.devices.end(), 0);
  launch.device_uuids.clear();
  launch.islands.clear();
  if (launch.software && launch.software->kind == model::SoftwareKind::image)
    launch.software.reset();
  return launch;
}

Json affinity_to(const std::string& host) {
  const Json field = {
      {"key", "metadata.name"}, {"operator", "In"}, {"values", Json::array({host})}};
  const Json term = {{"matchFields", Json::array({field})}};
  return {{"nodeAffinity",
           {{"requiredDuringSchedulingIgnoredDuringExecution",
             {{"nodeSelectorTerms", Json::array({term})}}}}}};
}

Json mount(std::string_view volume, std::string_view path) {
  return {{"name", std::string(volume)}, {"mountPath", std::string(path)}};
}

std::string user_volume(std::size_t index) { return format("volume-{}", index); }

Json volumes_of(const std::string& secret, const PodOptions& options) {
  Json volumes = Json::array(
      {{{"name", "program"}, {"emptyDir", Json::object()}},
       {{"name", "home"}, {"emptyDir", Json::object()}},
       {{"name", "launch"}, {"secret", {{"secretName", secret}, {"defaultMode", kSecretMode}}}},
       {{"name", "shared-memory"},
        {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", options.shared_memory}}}}});
  for (std::size_t i = 0; i < options.volumes.size(); ++i)
    volumes.push_back(k8s::volume_json(options.volumes[i], user_volume(i)));
  return volumes;
}

Json mounts_of(const PodOptions& options) {
  Json mounts = Json::array({mount("program", kProgramFolder), mount("home", kPodHome),
                             mount("launch", kLaunchFolder), mount("shared-memory", "/dev/shm")});
  for (std::size_t i = 0; i < options.volumes.size(); ++i)
    mounts.push_back(k8s::mount_json(options.volumes[i], user_volume(i)));
  return mounts;
}

// GPUs are limits, as their device plugins want it. A device that is a core is a request.
Json resources_of(const Gang& gang, const NodePlacement& node, const PodOptions& options) {
  const auto count = static_cast<int>(node.devices.size());
  Json requests = Json::object(), limits = Json::object();
  int cores = node.gpus ? 0 : count;
  if (const model::RunSpec* spec = spec_of(gang)) {
    cores = std::max(cores, spec->needs.cores);
    if (spec->needs.memory > Bytes(0))
      requests["memory"] = format("{}", spec->needs.memory.count());
  }
  if (cores > 0) requests["cpu"] = cores;
  if (node.gpus) limits[options.gpu_resource] = count;
  for (const auto& [name, amount] : request_of(gang).resources) limits[name] = amount;
  Json resources = Json::object();
  if (!requests.empty()) resources["requests"] = std::move(requests);
  if (!limits.empty()) resources["limits"] = std::move(limits);
  return resources;
}

Json environment_of(const model::NodeName& node, const PodOptions& options) {
  return Json::array(
      {{{"name", kPodAddress}, {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}},
       {{"name", std::string(host::kNodeToken)},
        {"value", k8s::literal(node_token(options.installation, node))}}});
}

Json agent_command(const host::LaunchSpec& launch, bool make_checkpoint_folder) {
  Json words = Json::array(
      {std::string(kAgentFile), "agent", "--address", format("$({})", kPodAddress), "--print-log"});
  if (make_checkpoint_folder) {
    words.push_back("--make-folder");
    words.push_back(k8s::literal(launch.checkpoint_folder));
  }
  words.push_back((std::filesystem::path(kLaunchFolder) / kLaunchData).string());
  return words;
}

Json init_container(const PodOptions& options) {
  Json container = {{"name", std::string(kAgentContainer)},
                    {"image", options.agent_image},
                    {"command", Json::array({options.agent_program, "agent", "--copy-to",
                                             std::string(kProgramFolder)})},
                    {"volumeMounts", Json::array({mount("program", kProgramFolder)})}};
  if (options.project.run_as_user)
    container["securityContext"] = {{"allowPrivilegeEscalation", false}};
  return container;
}

// The group reads the launch, and writes to the folders of the node.
Json pod_user(int user, int group) {
  return {{"runAsUser", user}, {"runAsGroup", group}, {"runAsNonRoot", true}, {"fsGroup", group}};
}

Json node_container(const Gang& gang, const NodePlacement& node, const PodOptions& options) {
  Json container = {
      {"name", std::string(kNodeContainer)},
      {"image", image_of(gang, options)},
      {"command", agent_command(launch_in_pod(gang, node), gang.make_checkpoint_folder)},
      {"env", environment_of(node_name(gang, node), options)},
      {"terminationMessagePolicy", "FallbackToLogsOnError"},
      {"volumeMounts", mounts_of(options)}};
  if (Json resources = resources_of(gang, node, options); !resources.empty())
    container["resources"] = std::move(resources);
  Json security = Json::object();
  if (options.project.run_as_user) security["allowPrivilegeEscalation"] = false;
  // Memory that a network card may read must stay in place.
  const auto is_rdma = [](const auto& resource) { return resource.first.starts_with("rdma/"); };
  if (std::ranges::any_of(request_of(gang).resources, is_rdma))
    security["capabilities"] = {{"add", Json::array({"IPC_LOCK"})}};
  if (!security.empty()) container["securityContext"] = std::move(security);
  return container;
}

// Fields that are left out otherwise: the API server takes an empty value for a request.
void add_requested_fields(const Gang& gang, const NodePlacement& node, const PodOptions& options,
                          Json& spec) {
  const model::PodRequest request = request_of(gang);
  Json tolerations = Json::array(), secrets = Json::array();
  if (node.gpus)
    tolerations.push_back(
        k8s::toleration_json({.key = options.gpu_resource, .value = "", .effect = ""}));
  for (const std::string& words : request.tolerations)
    if (const auto toleration = k8s::parse_toleration(words))
      tolerations.push_back(k8s::toleration_json(*toleration));
  for (const std::string& name : request.image_pull_secrets) secrets.push_back({{"name", name}});
  if (!tolerations.empty()) spec["tolerations"] = std::move(tolerations);
  if (!secrets.empty()) spec["imagePullSecrets"] = std::move(secrets);
  if (!request.node_selector.empty()) spec["nodeSelector"] = request.node_selector;
  if (request.priority_class) spec["priorityClassName"] = *request.priority_class;
  if (const auto& user = options.project.run_as_user)
    spec["securityContext"] = pod_user(*user, options.project.run_as_group.value_or(*user));
  const auto& account = options.project.service_account;
  if (account || request.service_account)
    spec["serviceAccountName"] = account ? *account : *request.service_account;
  else
    spec["automountServiceAccountToken"] = false;
  if (!request.host_network) return;
  spec["hostNetwork"] = true;
  spec["dnsPolicy"] = "ClusterFirstWithHostNet";
}

std::int64_t grace_seconds(const Gang& gang, const PodOptions& options) {
  const model::RunSpec* spec = spec_of(gang);
  const Duration grace =
      spec ? spec->grace_period.value_or(options.grace_period) : options.grace_period;
  return ceil<seconds>(grace + kPodGraceMargin).count();
}

std::string sealed_variables(const Gang& gang, const std::map<std::string, std::string>& variables,
                             const PodOptions& options) {
  if (!options.record_secret) return "";
  return net::seal(*options.record_secret, text(gang.attempt), dump_json(Json(variables)));
}

// False: the record has some that cannot be read.
bool read_variables(const Json& owner, const model::AttemptName& attempt, const PodOptions& options,
                    std::map<std::string, std::string>& variables) {
  if (!field_of(owner, {"data", kOldVariablesData}).is_null()) return false;
  const Json& sealed = field_of(owner, {"data", kVariablesData});
  if (sealed.is_null()) return true;
  if (!options.record_secret || !sealed.is_string()) return false;
  const auto opened = net::unseal(*options.record_secret, text(attempt), sealed.get<std::string>());
  const auto json = opened ? parse_json(*opened) : Result<Json>(opened.error());
  if (!json || !json->is_object()) return false;
  for (const auto& [name, value] : json->items())
    if (value.is_string()) variables[name] = value.get<std::string>();
  return true;
}

// The annotation's text as a node.
std::optional<model::NodeName> parsed_node(const std::string& text) {
  auto node = model::parse_node_name(text);
  return node ? std::optional(*std::move(node)) : std::nullopt;
}

}  // namespace

std::string attempt_object_name(const std::string& installation,
                                const model::AttemptName& attempt) {
  const model::RunId& run = attempt.id.run;
  const std::string readable =
      lower_dns(format("ls-{}-{}-{}", run.project, run.number, attempt.id.epoch));
  const std::string hash = net::sha256_hex(format("{}:{}", installation, text(attempt)));
  return format("{}-{}", readable.substr(0, kReadablePartMax), hash.substr(0, kHashDigits));
}

std::string pod_name(const std::string& attempt_object, int index) {
  return format("{}-{}", attempt_object, index);
}

Result<void> check_gang(const Gang& gang, const PodOptions& options) {
  if (image_of(gang, options).empty())
    return Error{
        Code::invalid,
        "the run names no image, and the daemon has none for such runs: set `image` in the "
        "run, or start the daemon with --image"};
  const auto& account = options.project.service_account;
  const auto wanted = request_of(gang).service_account;
  if (!account || !wanted || *wanted == *account) return {};
  return Error{Code::invalid,
               format("kubernetes.service_account: the Pods of the project {} have the service "
                      "account {}, got {}; leave the field out",
                      gang.attempt.id.run.project, *account, *wanted)};
}

Json owner_object(const Gang& gang, const PodOptions& options) {
  const std::string name = attempt_object_name(options.installation, gang.attempt);
  Json data = Json::object();
  if (auto attempt = gang.program.attempt) {
    const auto variables = std::exchange(attempt->spec.env, {});
    if (!variables.empty()) data[kVariablesData] = sealed_variables(gang, variables, options);
    data[kAttemptData] = dump_json(to_json(*attempt));
  }
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata",
           {{"name", name},
            {"labels", labels_of(name, options)},
            {"annotations", {{kAttemptAnnotation, text(gang.attempt)}}}}},
          {"data", std::move(data)}};
}

Json secret_object(const Gang& gang, const NodePlacement& node, const ObjectOwner& owner,
                   const PodOptions& options, const std::string& daemon_file) {
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata",
           {{"name", secret_name(node, owner)},
            {"labels", labels_of(owner.name, options)},
            {"ownerReferences", owner_references(owner)}}},
          {"immutable", true},
          {"stringData",
           {{kLaunchData, dump_json(to_json(launch_in_pod(gang, node)), Indent::two)},
            {kDaemonData, daemon_file}}}};
}

Json pod_object(const Gang& gang, const NodePlacement& node, const ObjectOwner& owner,
                const PodOptions& of_daemon) {
  const PodOptions options = options_of(gang, of_daemon);
  const Duration limit = gang.program.time_left + gang.program.start_limit + kPodTimeMargin;
  Json spec = {{"restartPolicy", "Never"},
               {"enableServiceLinks", false},
               {"activeDeadlineSeconds", ceil<seconds>(limit).count()},
               {"terminationGracePeriodSeconds", grace_seconds(gang, options)},
               {"affinity", affinity_to(node.host)},
               {"initContainers", Json::array({init_container(options)})},
               {"containers", Json::array({node_container(gang, node, options)})},
               {"volumes", volumes_of(secret_name(node, owner), options)}};
  add_requested_fields(gang, node, options, spec);
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", pod_name(owner.name, node.index)},
            {"labels", labels_of(owner.name, options)},
            {"annotations", {{kNodeAnnotation, text(node_name(gang, node))}}},
            {"ownerReferences", owner_references(owner)}}},
          {"spec", std::move(spec)}};
}

std::optional<model::NodeName> node_of_pod(const Json& pod) {
  return parsed_node(text_of(pod, {"metadata", "annotations", kNodeAnnotation}));
}

std::optional<model::AttemptName> attempt_of_owner(const Json& owner) {
  const std::string name = text_of(owner, {"metadata", "annotations", kAttemptAnnotation});
  const auto node = parsed_node(name + "/0");
  return node ? std::optional(node->attempt()) : std::nullopt;
}

std::map<model::NodeName, LaunchRecord> records_of_owner(const Json& owner,
                                                         const PodOptions& options) {
  std::map<model::NodeName, LaunchRecord> records;
  const auto name = attempt_of_owner(owner);
  const auto json = parse_json(text_of(owner, {"data", kAttemptData}));
  if (!name || !json) return records;
  auto attempt = from_json<model::AttemptRecord>(*json, UnknownFields::ignore);
  if (!attempt) return records;
  const bool has_all = read_variables(owner, *name, options, attempt->spec.env);
  for (std::size_t i = 0; i < attempt->devices.size(); ++i) {
    LaunchRecord record{.host = attempt->devices[i].host,
                        .devices = attempt->devices[i].devices,
                        .time_left = model::time_left(*attempt)};
    if (has_all)
      record.attempt = *attempt;
    else
      record.error = "the run has variables, which this daemon's key does not open";
    records[{name->generation, {name->id, static_cast<int>(i)}}] = std::move(record);
  }
  return records;
}

}  // namespace lockstep::engine
