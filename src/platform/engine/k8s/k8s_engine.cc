#include "platform/engine/k8s/k8s_engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/format.h"

namespace lockstep::engine {
namespace {

Error no_answer(const Error& problem) {
  return {Code::unavailable,
          format("the API server of Kubernetes does not answer: {}", problem.message)};
}

}  // namespace

K8sEngine::K8sEngine(Setup setup)
    : projects_(setup.projects),
      own_namespace_(setup.namespaces.front().name),
      bounds_(setup.bounds),
      first_answer_(Deadline::after(setup.bounds.first_answer_wait)),
      nodes_(std::move(setup.nodes), setup.options.gpu_resource, setup.bounds.watch) {
  for (NamespaceAccess& access : setup.namespaces) {
    const std::string name = access.name;
    namespaces_[name] =
        std::make_unique<NamespacePods>(NamespacePods::Setup{.access = std::move(access),
                                                             .options = setup.options,
                                                             .projects = projects_,
                                                             .bounds = bounds_,
                                                             .nodes = nodes_});
  }
}

void K8sEngine::announce(const std::string& daemon_file) {
  for (const auto& [name, pods] : namespaces_) pods->announce(daemon_file);
}

NamespacePods& K8sEngine::pods_of(const std::string& project) {
  const auto entry = projects_.projects.find(project);
  const bool has_own = entry != projects_.projects.end() && entry->second.in_namespace;
  return *namespaces_.at(has_own ? *entry->second.in_namespace : own_namespace_);
}

// Its project may have had another namespace before.
void K8sEngine::submit(Gang gang) {
  for (const auto& [name, pods] : namespaces_)
    if (pods->knows_all_of(gang)) return;
  pods_of(gang.attempt.id.run.project).submit(std::move(gang));
}

void K8sEngine::kill(const model::NodeName& node) {
  for (const auto& [name, pods] : namespaces_) pods->kill(node);
}

Result<EngineList> K8sEngine::list() {
  if (auto current = nodes_.check_current(bounds_.list_age_max, first_answer_); !current)
    return no_answer(current.error());
  EngineList listed;
  for (const auto& [name, pods] : namespaces_) {
    const auto added = pods->add_nodes_to(listed, first_answer_);
    if (added) continue;
    const auto projects = k8s::projects_in(projects_, name);
    if (name == own_namespace_ || projects.empty()) return no_answer(added.error());
    for (const std::string& project : projects)
      listed.unknown_projects.emplace(project, added.error().message);
  }
  std::ranges::sort(listed.nodes, {}, &ListedNode::node);
  nodes_.add_hosts_to(listed, bounds_.silent_after);
  return listed;
}

}  // namespace lockstep::engine
