#include "apps/k8s/workload_options.h"

#include <charconv>
#include <optional>

#include "apps/cli/subcommand.h"
#include "base/format.h"

namespace lockstep::cli {
namespace {

constexpr int kK8sNodesMax = 100'000;  // of an Indexed Job
constexpr int kK8sDevicesMax = 1'000;
constexpr int kK8sPortMax = 65'535;
// The label in which NVIDIA's feature discovery has the product's name.
constexpr auto kAcceleratorLabel = "nvidia.com/gpu.product";

template <class T>
Result<T> of_option(std::string_view option, Result<T> result) {
  return result ? std::move(result) : std::move(result).error().with_context(option);
}

// Reads each word of a repeatable option.
template <class Parse>
auto read_all(std::string_view option, const std::vector<std::string>& words, Parse parse)
    -> Result<std::vector<typename decltype(parse(std::string_view()))::value_type>> {
  std::vector<typename decltype(parse(std::string_view()))::value_type> values;
  for (const std::string& word : words)
    values.push_back(TRY(of_option(option, parse(std::string_view(word)))));
  return values;
}

Result<std::string> quantity_or_none(std::string_view option, const std::string& words) {
  if (words.empty() || words == "none") return std::string();
  return of_option(option, k8s::parse_quantity(words));
}

// RESOURCE or RESOURCE=COUNT.
Result<k8s::Resource> resource_from(std::string_view words) {
  const std::size_t equals = words.find('=');
  k8s::Resource resource{.name = std::string(words.substr(0, equals))};
  TRY(k8s::check_key(resource.name));
  if (equals == std::string_view::npos) return resource;
  const char* const end = words.data() + words.size();
  const auto read = std::from_chars(words.data() + equals + 1, end, resource.count);
  if (read.ec == std::errc() && read.ptr == end && resource.count > 0) return resource;
  return Error{Code::invalid, format("'{}': write RESOURCE=COUNT, such as rdma/hca=1", words)};
}

// KEY=VALUE, or the product alone.
Result<k8s::KeyValue> accelerator_from(const std::string& words) {
  if (words.find('=') != std::string::npos) return k8s::parse_label(words);
  return k8s::parse_label(format("{}={}", kAcceleratorLabel, words));
}

Result<k8s::KeyValue> annotation_from(std::string_view words) {
  k8s::KeyValue annotation = TRY(k8s::parse_key_value(words));
  TRY(k8s::check_key(annotation.first));
  return annotation;
}

Result<std::optional<Duration>> duration_if_any(std::string_view option, const std::string& words) {
  if (words.empty()) return std::optional<Duration>();
  return std::optional(TRY(duration_option(option, words)));
}

Result<void> check_name_if_any(std::string_view option, const std::string& name) {
  return name.empty() ? Result<void>() : of_option(option, k8s::check_object_name(name));
}

// The words after --, or the command in a shell.
Result<std::vector<std::string>> program_of(const WorkloadWords& words) {
  const auto parameters = TRY(read_all("--param", words.parameters, k8s::parse_key_value));
  if (words.command.empty()) {
    if (parameters.empty()) return words.program;
    return Error{Code::invalid, "--param replaces {NAME} in the text of --command"};
  }
  if (!words.program.empty())
    return Error{Code::invalid, "write the program with --command or after --, and not both"};
  return std::vector<std::string>{"/bin/sh", "-c",
                                  TRY(k8s::with_parameters(words.command, parameters))};
}

Result<void> check_names(const WorkloadWords& words) {
  TRY(check_name_if_any("--namespace", words.in_namespace));
  TRY(check_name_if_any("--priority-class", words.priority_class));
  TRY(check_name_if_any("--service-account", words.service_account));
  for (const std::string& secret : words.image_pull_secrets)
    TRY(check_name_if_any("--image-pull-secret", secret));
  TRY(of_option("--device-resource", k8s::check_key(words.device_resource)));
  if (!words.working_folder.empty())
    TRY(of_option("--working-folder", k8s::check_path(words.working_folder)));
  return {};
}

Result<k8s::KeyValues> node_selector_of(const WorkloadWords& words) {
  k8s::KeyValues selector = TRY(read_all("--node-selector", words.node_selector, k8s::parse_label));
  if (!words.accelerator.empty())
    selector.push_back(TRY(of_option("--accelerator", accelerator_from(words.accelerator))));
  return selector;
}

void add_text(CLI::App& command, const char* names, std::string& value, const std::string& help,
              const char* type) {
  command.add_option(names, value, help)->type_name(type);
}

void add_texts(CLI::App& command, const char* names, std::vector<std::string>& values,
               const std::string& help, const char* type) {
  command.add_option(names, values, help + "; repeatable")
      ->type_name(type)
      ->allow_extra_args(false);
}

void add_program_options(CLI::App& command, WorkloadWords& words) {
  add_text(command, "--name", words.name, "name of the objects, and the first part of host names",
           "NAME");
  add_text(command, "--namespace", words.in_namespace,
           "namespace of the objects; else that of kubectl's context, and of rbac `default`",
           "NAME");
  add_text(command, "-I,--image", words.image, "image of the containers", "IMAGE");
  add_text(command, "-c,--command", words.command, "program, as text for /bin/sh", "TEXT");
  add_texts(command, "-p,--param", words.parameters, "replaces {NAME} in the text of --command",
            "NAME=VALUE");
  add_texts(command, "-e,--env", words.env, "variable of the containers", "NAME=VALUE");
  add_text(command, "--working-folder", words.working_folder,
           "folder in which the program starts; else the image's", "PATH");
}

void add_size_options(CLI::App& command, WorkloadWords& words) {
  command.add_option("-n,--nodes", words.nodes, "nodes, with one Pod each")
      ->type_name("INT")
      ->check(whole_number(1, kK8sNodesMax))
      ->capture_default_str();
  command.add_option("-g,-G,--devices", words.devices, "devices of each node")
      ->type_name("INT")
      ->check(whole_number(0, kK8sDevicesMax))
      ->capture_default_str();
  command.add_option("--device-resource", words.device_resource, "resource of the devices")
      ->type_name("RESOURCE")
      ->capture_default_str();
  add_text(command, "-A,--accelerator", words.accelerator,
           "only nodes with this value of the label nvidia.com/gpu.product, or with this label",
           "[KEY=]VALUE");
  add_text(command, "-C,--cores", words.cores, "CPU cores of each node, such as 8 or 500m",
           "QUANTITY");
  add_text(command, "-M,--memory", words.memory, "main memory of each node, such as 64Gi",
           "QUANTITY");
  command
      .add_option("--shm", words.shared_memory,
                  "size of /dev/shm, counted as memory of the node; none: the 64 MiB of the "
                  "container runtime")
      ->type_name("QUANTITY")
      ->capture_default_str();
  add_text(command, "--rdma", words.rdma,
           "resource of the network card for RDMA, such as rdma/hca=1", "RESOURCE[=COUNT]");
  command.add_flag("--host-network", words.uses_host_network, "Pods use the network of their node");
}

void add_placement_options(CLI::App& command, WorkloadWords& words) {
  add_texts(command, "--volume", words.volumes,
            "pvc:NAME:/PATH, host:/SOURCE:/PATH, config-map:NAME:/PATH, secret:NAME:/PATH or "
            "empty:/PATH; :ro at the end makes it read-only",
            "VOLUME");
  command
      .add_option("-P,--port", words.ports, "port of the containers and the Service; repeatable")
      ->type_name("PORT")
      ->allow_extra_args(false)
      ->check(whole_number(1, kK8sPortMax));
  command.add_option("--master-port", words.master_port, "port of rank 0, where the ranks meet")
      ->type_name("PORT")
      ->check(whole_number(1, kK8sPortMax))
      ->capture_default_str();
  add_texts(command, "-L,--label", words.labels, "label of the objects and their Pods",
            "KEY=VALUE");
  add_texts(command, "--annotation", words.annotations, "annotation of the objects and their Pods",
            "KEY=VALUE");
  add_texts(command, "--node-selector", words.node_selector, "only nodes with this label",
            "KEY=VALUE");
  add_texts(command, "--toleration", words.tolerations,
            "also nodes with this taint; without a value any, without an effect every one",
            "KEY[=VALUE][:EFFECT]");
  add_text(command, "--priority-class", words.priority_class, "priority class of the Pods", "NAME");
  add_text(command, "--gang", words.gang,
           "kueue=QUEUE, volcano[=QUEUE] or scheduler-plugins: starts all Pods together or none, "
           "where the cluster has that system",
           "SYSTEM");
  add_text(command, "--service-account", words.service_account,
           "service account whose token the Pods get; else none", "NAME");
  add_texts(command, "--image-pull-secret", words.image_pull_secrets,
            "secret with the login of the image's registry", "NAME");
}

void add_time_options(CLI::App& command, WorkloadWords& words) {
  add_text(command, "--timeout", words.timeout,
           "time after which the Job is ended, its wait for nodes included; of pod: that Pods run",
           "DURATION");
  add_text(command, "--grace-period", words.grace_period,
           "time from SIGTERM to SIGKILL; else that of Kubernetes, 30s", "DURATION");
  add_text(command, "--keep", words.kept,
           "time after its end when the Job or JobSet is removed; else it stays", "DURATION");
}

}  // namespace

void add_workload_options(CLI::App& command, const std::shared_ptr<WorkloadWords>& words) {
  add_program_options(command, *words);
  add_size_options(command, *words);
  add_placement_options(command, *words);
  add_time_options(command, *words);
}

Result<k8s::Workload> workload_of(const WorkloadWords& words) {
  TRY(check_names(words));
  k8s::Workload workload;
  workload.name = words.name;
  workload.in_namespace = words.in_namespace;
  workload.nodes = words.nodes;
  workload.devices = words.devices;
  workload.device_resource = words.device_resource;
  workload.image = words.image;
  workload.program = TRY(program_of(words));
  workload.working_folder = words.working_folder;
  workload.cores = TRY(quantity_or_none("--cores", words.cores));
  workload.memory = TRY(quantity_or_none("--memory", words.memory));
  workload.shared_memory = TRY(quantity_or_none("--shm", words.shared_memory));
  workload.master_port = words.master_port;
  workload.ports = words.ports;
  workload.env = TRY(read_all("--env", words.env, k8s::parse_key_value));
  workload.labels = TRY(read_all("--label", words.labels, k8s::parse_label));
  workload.annotations = TRY(read_all("--annotation", words.annotations, annotation_from));
  workload.node_selector = TRY(node_selector_of(words));
  workload.volumes = TRY(read_all("--volume", words.volumes, k8s::parse_volume));
  workload.tolerations = TRY(read_all("--toleration", words.tolerations, k8s::parse_toleration));
  workload.priority_class = words.priority_class;
  workload.service_account = words.service_account;
  workload.image_pull_secrets = words.image_pull_secrets;
  if (!words.rdma.empty()) workload.rdma = TRY(of_option("--rdma", resource_from(words.rdma)));
  if (!words.gang.empty())
    workload.gang = TRY(of_option("--gang", k8s::parse_gang_scheduling(words.gang)));
  workload.uses_host_network = words.uses_host_network;
  workload.timeout = TRY(duration_if_any("--timeout", words.timeout));
  workload.grace_period = TRY(duration_if_any("--grace-period", words.grace_period));
  workload.kept = TRY(duration_if_any("--keep", words.kept));
  TRY(check(workload));
  return workload;
}

}  // namespace lockstep::cli
