#include "platform/k8s/project_table.h"

#include <cstddef>
#include <set>
#include <utility>

#include "base/format.h"
#include "platform/k8s/names.h"
#include "text/convert.h"
#include "text/document.h"

namespace lockstep::k8s {
namespace {

// The engine has a thread and two connections for each.
constexpr std::size_t kNamespacesMax = 64;

Result<void> check_number(std::string_view field, const std::optional<int>& number) {
  if (!number || *number > 0) return {};
  return Error{Code::invalid, format("{} must be 1 or higher, got {}; 0 is root", field, *number)};
}

Result<void> check_project_pods(const ProjectPods& pods) {
  if (pods.in_namespace)
    if (auto checked = check_dns_label(*pods.in_namespace); !checked)
      return std::move(checked).error().with_context("namespace");
  if (pods.service_account)
    if (auto checked = check_object_name(*pods.service_account); !checked)
      return std::move(checked).error().with_context("service_account");
  TRY(check_number("run_as_user", pods.run_as_user));
  TRY(check_number("run_as_group", pods.run_as_group));
  if (!pods.run_as_group || pods.run_as_user) return {};
  return Error{Code::invalid, "run_as_group needs run_as_user"};
}

Result<void> check_table(const ProjectTable& table) {
  for (const auto& [project, pods] : table.projects)
    if (auto checked = check_project_pods(pods); !checked)
      return std::move(checked).error().with_context("projects: " + project);
  for (const std::string& name : table.namespaces.value_or(std::vector<std::string>()))
    if (auto checked = check_dns_label(name); !checked)
      return std::move(checked).error().with_context("namespaces");
  if (further_namespaces(table, "").size() <= kNamespacesMax) return {};
  return Error{Code::invalid, format("it has more than {} namespaces", kNamespacesMax)};
}

}  // namespace

Result<ProjectTable> parse_project_table(std::string_view text, std::string_view name) {
  auto table = TRY(from_document<ProjectTable>(TRY(parse_yaml(text, name))));
  if (auto checked = check_table(table); !checked)
    return std::move(checked).error().with_context(std::string(name));
  return table;
}

Result<ProjectPods> pods_of_project(const ProjectTable& table, const std::string& project) {
  const auto found = table.projects.find(project);
  if (found != table.projects.end()) return found->second;
  if (!table.refuse_others.value_or(false)) return ProjectPods();
  return Error{Code::denied,
               format("the project {} has no namespace on this cluster; ask an administrator to "
                      "add it to the file of `lockstep serve --project-namespaces`",
                      project)};
}

std::vector<std::string> further_namespaces(const ProjectTable& table, const std::string& own) {
  std::set<std::string> names;
  for (const auto& [project, pods] : table.projects)
    if (pods.in_namespace) names.insert(*pods.in_namespace);
  if (table.namespaces) names.insert(table.namespaces->begin(), table.namespaces->end());
  names.erase(own);
  return {names.begin(), names.end()};
}

std::vector<std::string> projects_in(const ProjectTable& table, const std::string& in_namespace) {
  std::vector<std::string> projects;
  for (const auto& [project, pods] : table.projects)
    if (pods.in_namespace == in_namespace) projects.push_back(project);
  return projects;
}

}  // namespace lockstep::k8s
