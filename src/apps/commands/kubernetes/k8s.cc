#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/k8s/cluster_check.h"
#include "apps/k8s/cluster_options.h"
#include "apps/k8s/project_file.h"
#include "apps/k8s/workload_options.h"
#include "base/format.h"
#include "platform/k8s/installation.h"
#include "platform/k8s/manifests.h"
#include "platform/k8s/project_table.h"
#include "platform/k8s/rights.h"
#include "platform/k8s/workload.h"
#include "text/convert.h"

namespace lockstep::cli {
namespace {

constexpr auto kK8sActions = "render|rbac|install|check";
constexpr auto kK8sKinds = "job|jobset|pod|service";
constexpr auto kRightsName = "lockstep";

struct K8sFlags {
  std::string action, kind;
  std::shared_ptr<WorkloadWords> words = std::make_shared<WorkloadWords>();
  std::shared_ptr<ClusterWords> cluster = std::make_shared<ClusterWords>();
  std::string agent_image, run_image, storage = "20Gi", storage_class, shared;  // of install
  std::string project_namespaces;
  bool json = false;
};

struct Rendering {
  std::string_view kind;
  std::vector<Json> (*manifests)(const k8s::Workload&);
  bool starts_pods;
};
constexpr std::array<Rendering, 4> kRenderings = {{{"job", k8s::job_manifests, true},
                                                   {"jobset", k8s::jobset_manifests, true},
                                                   {"pod", k8s::pod_manifests, true},
                                                   {"service", k8s::service_manifests, false}}};

Result<std::vector<Json>> render(const K8sFlags& flags) {
  const auto* const found = std::ranges::find(kRenderings, flags.kind, &Rendering::kind);
  if (found == kRenderings.end())
    return Error{Code::invalid, format("k8s render: there is no kind '{}': write one of {}",
                                       flags.kind, kK8sKinds)};
  if (flags.words->name.empty())
    return Error{Code::invalid, "k8s render: --name is required; it names the objects"};
  if (found->starts_pods && flags.words->image.empty())
    return Error{Code::invalid, format("k8s render {}: --image is required", flags.kind)};
  const k8s::Workload workload = TRY(workload_of(*flags.words));
  std::vector<Json> objects = found->manifests(workload);
  if (!workload.gang) return objects;
  if (!found->starts_pods)
    return Error{Code::invalid, "k8s render service: --gang is for the kinds that start Pods"};
  return k8s::with_gang_scheduling(std::move(objects), *workload.gang, workload.name,
                                   workload.nodes);
}

Result<void> check_no_argument(const K8sFlags& flags) {
  if (flags.kind.empty()) return {};
  return Error{Code::invalid,
               format("k8s {} takes no argument, got '{}'", flags.action, flags.kind)};
}

// The names of the daemon's objects and of their namespace.
struct DaemonNames {
  std::string name, in_namespace;
};

Result<DaemonNames> daemon_names(const K8sFlags& flags, const std::string& default_namespace) {
  TRY(check_no_argument(flags));
  const WorkloadWords& words = *flags.words;
  DaemonNames names{
      .name = words.name.empty() ? kRightsName : words.name,
      .in_namespace = words.in_namespace.empty() ? default_namespace : words.in_namespace};
  for (const auto& [option, value] :
       {std::pair("--name", names.name), {"--namespace", names.in_namespace}})
    if (auto checked = k8s::check_dns_label(value); !checked)
      return std::move(checked).error().with_context(option);
  return names;
}

std::optional<std::string> project_file(const K8sFlags& flags) {
  return flags.project_namespaces.empty() ? std::nullopt : std::optional(flags.project_namespaces);
}

Result<std::vector<Json>> rights(const K8sFlags& flags) {
  const DaemonNames names = TRY(daemon_names(flags, "default"));
  const k8s::ProjectTable table = TRY(project_table(project_file(flags)));
  return k8s::rights_manifests(names.name, names.in_namespace,
                               k8s::further_namespaces(table, names.in_namespace));
}

Result<std::vector<Json>> installation(const K8sFlags& flags) {
  const DaemonNames names = TRY(daemon_names(flags, "lockstep"));
  const std::string& image = flags.words->image;
  if (image.empty())
    return Error{Code::invalid,
                 "k8s install: --image is required: one with the daemon, such as that of "
                 "packaging/container"};
  TRY(k8s::check_image("--image", image));
  TRY(k8s::check_image("--agent-image", flags.agent_image));
  TRY(k8s::check_image("--run-image", flags.run_image));
  auto storage = k8s::parse_quantity(flags.storage);
  if (!storage) return std::move(storage).error().with_context("--storage");
  const k8s::Installation installed{
      .name = names.name,
      .in_namespace = names.in_namespace,
      .image = image,
      .agent_image = flags.agent_image.empty() ? image : flags.agent_image,
      .run_image = flags.run_image,
      .storage = *std::move(storage),
      .storage_class = flags.storage_class,
      .device_resource = flags.words->device_resource,
      .volumes = flags.words->volumes,
      .shared = flags.shared,
      .project_table = TRY(project_table_text(project_file(flags)))};
  TRY(k8s::check_installation(installed));
  return k8s::installation_manifests(installed);
}

Result<std::vector<Json>> objects(const K8sFlags& flags) {
  if (flags.action == "render") return render(flags);
  if (flags.action == "rbac") return rights(flags);
  if (flags.action == "install") return installation(flags);
  return Error{Code::invalid,
               format("k8s: there is no action '{}': write one of {}", flags.action, kK8sActions)};
}

Result<int> check(const K8sFlags& flags) {
  TRY(check_no_argument(flags));
  ClusterWords words = *flags.cluster;
  words.in_namespace = flags.words->in_namespace;
  words.projects = TRY(project_table(project_file(flags)));
  const ClusterCheck found = TRY(check_cluster(words, flags.words->device_resource));
  print(flags.json ? dump_json(to_json(found), Indent::two) : check_text(found));
  return found.missing_rights.empty() ? kDone : kFailed;
}

// print() ends the last line itself.
void print_manifests(std::string yaml) {
  yaml.pop_back();
  print(yaml);
}

void add_install_options(CLI::App& command, K8sFlags& flags) {
  const auto add = [&](const char* name, std::string& value, const char* help, const char* type) {
    return command.add_option(name, value, help)->type_name(type);
  };
  add("--project-namespaces", flags.project_namespaces,
      "of rbac, install and check: the file with the namespaces of projects, as `lockstep serve` "
      "has "
      "it",
      kFileValue);
  add("--agent-image", flags.agent_image,
      "of install: the image from which Pods copy the agent (default: --image)", "IMAGE");
  add("--run-image", flags.run_image, "of install: the image of runs that name none", "IMAGE");
  add("--shared", flags.shared,
      "of install: a folder in a --volume of all Pods, for checkpoints of runs that name no folder",
      kFolderValue);
  add("--storage", flags.storage, "of install: the size of the daemon's volume", "QUANTITY")
      ->capture_default_str();
  add("--storage-class", flags.storage_class,
      "of install: the class of that volume (default: that of the cluster)", "NAME");
}

}  // namespace

// `lockstep k8s check`; and `lockstep k8s render KIND OPTIONS [-- PROGRAM...]`: manifests for
// `kubectl apply -f -`.
void add_k8s(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("k8s", "Print manifests for Kubernetes, and check a cluster");
  auto flags = std::make_shared<K8sFlags>();
  command->add_option("action", flags->action, "what to do")->required()->type_name(kK8sActions);
  command->add_option("kind", flags->kind, "of render: the kind of object")->type_name(kK8sKinds);
  command
      ->add_option("program", flags->words->program,
                   "after --: program and arguments, instead of --command")
      ->type_name(kProgramValue);
  add_workload_options(*command, flags->words);
  add_kubeconfig_options(*command, flags->cluster);
  add_install_options(*command, *flags);
  command->add_flag("--json", flags->json, "of check: everything, for programs");
  command->footer(
      "render prints YAML for `kubectl apply -f -`. job: an Indexed Job, from Kubernetes 1.24 on. "
      "jobset:\na JobSet. pod: Pods without a controller. service: the headless Service alone, "
      "which job and pod\ninclude. Every node finds MASTER_ADDR, MASTER_PORT, NODE_RANK, NNODES, "
      "and torchrun's options as\nPET_ variables; with at most one device also RANK and "
      "WORLD_SIZE. rbac prints the rights that a\ndaemon in a namespace needs, install a daemon "
      "with them, its volume and a Service. check calls a\ncluster: are these rights there, and "
      "which nodes are ready for runs?\n\n"
      "Examples:\n"
      "  lockstep k8s render job --name train -n 4 -g 8 --image pytorch -c \"torchrun train.py\"\n"
      "  lockstep k8s render job --name train -I pytorch --volume pvc:data:/data -- python "
      "train.py\n"
      "  lockstep k8s rbac --namespace ml\n"
      "  lockstep k8s install --namespace ml --image registry.example/lockstep:0.1.0\n"
      "  lockstep k8s check --namespace ml --context cluster-a");
  command->callback([&action, flags] {
    action = [flags]() -> Result<int> {
      if (flags->action == "check") return check(*flags);
      print_manifests(k8s::to_yaml(TRY(objects(*flags))));
      return kDone;
    };
  });
}

}  // namespace lockstep::cli
