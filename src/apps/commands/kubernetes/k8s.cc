#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/k8s/workload_options.h"
#include "base/format.h"
#include "platform/k8s/manifests.h"
#include "platform/k8s/rights.h"

namespace lockstep::cli {
namespace {

constexpr auto kK8sActions = "render|rbac";
constexpr auto kK8sKinds = "job|jobset|pod|service";
constexpr auto kRightsName = "lockstep";

struct K8sFlags {
  std::string action, kind;
  std::shared_ptr<WorkloadWords> words = std::make_shared<WorkloadWords>();
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

Result<std::vector<Json>> rights(const K8sFlags& flags) {
  if (!flags.kind.empty())
    return Error{Code::invalid, format("k8s rbac takes no argument, got '{}'", flags.kind)};
  const WorkloadWords& words = *flags.words;
  const std::string name = words.name.empty() ? kRightsName : words.name;
  const std::string in_namespace = words.in_namespace.empty() ? "default" : words.in_namespace;
  for (const auto& [option, value] : {std::pair("--name", name), {"--namespace", in_namespace}})
    if (auto checked = k8s::check_dns_label(value); !checked)
      return std::move(checked).error().with_context(option);
  return k8s::rights_manifests(name, in_namespace);
}

Result<std::vector<Json>> objects(const K8sFlags& flags) {
  if (flags.action == "render") return render(flags);
  if (flags.action == "rbac") return rights(flags);
  return Error{Code::invalid,
               format("k8s: there is no action '{}': write one of {}", flags.action, kK8sActions)};
}

// print() ends the last line itself.
void print_manifests(std::string yaml) {
  yaml.pop_back();
  print(yaml);
}

}  // namespace

// `lockstep k8s render KIND OPTIONS [-- PROGRAM...]`: manifests for `kubectl apply -f -`.
void add_k8s(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("k8s", "Print manifests for Kubernetes");
  auto flags = std::make_shared<K8sFlags>();
  command->add_option("action", flags->action, "what to print")->required()->type_name(kK8sActions);
  command->add_option("kind", flags->kind, "of render: the kind of object")->type_name(kK8sKinds);
  command
      ->add_option("program", flags->words->program,
                   "after --: program and arguments, instead of --command")
      ->type_name(kProgramValue);
  add_workload_options(*command, flags->words);
  command->footer(
      "render prints YAML for `kubectl apply -f -`. job: an Indexed Job, from Kubernetes 1.24 on. "
      "jobset:\na JobSet. pod: Pods without a controller. service: the headless Service alone, "
      "which job and pod\ninclude. Every node finds MASTER_ADDR, MASTER_PORT, NODE_RANK, NNODES, "
      "and torchrun's options as\nPET_ variables; with at most one device also RANK and "
      "WORLD_SIZE. rbac prints the rights that a\ndaemon in a namespace needs.\n\n"
      "Examples:\n"
      "  lockstep k8s render job --name train -n 4 -g 8 --image pytorch -c \"torchrun train.py\"\n"
      "  lockstep k8s render job --name train -I pytorch --volume pvc:data:/data -- python "
      "train.py\n"
      "  lockstep k8s rbac --namespace ml");
  command->callback([&action, flags] {
    action = [flags]() -> Result<int> {
      print_manifests(k8s::to_yaml(TRY(objects(*flags))));
      return kDone;
    };
  });
}

}  // namespace lockstep::cli
