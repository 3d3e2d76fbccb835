// ProjectTable: the namespace, the service account and the user of each project's Pods, from a file
// of the administrators (docs/design/kubernetes-projects.md).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/record.h"

namespace lockstep::k8s {

struct ProjectPods {
  std::optional<std::string> in_namespace{}, service_account{};
  std::optional<int> run_as_user{}, run_as_group{};

  bool operator==(const ProjectPods&) const = default;

  static constexpr auto fields() {
    return record<ProjectPods>(field("namespace", &ProjectPods::in_namespace,
                                     "of the project's objects; absent: that of the daemon"),
                               field("service_account", &ProjectPods::service_account,
                                     "of its Pods; a run that asks for another one is refused"),
                               field("run_as_user", &ProjectPods::run_as_user,
                                     "the user of all containers; absent: that of the image"),
                               field("run_as_group", &ProjectPods::run_as_group,
                                     "the group of that user; absent: the same number"));
  }
};

struct ProjectTable {
  std::map<std::string, ProjectPods> projects{};
  std::optional<bool> refuse_others{};
  std::optional<std::vector<std::string>> namespaces{};

  static constexpr auto fields() {
    return record<ProjectTable>(
        field("projects", &ProjectTable::projects, "by the name of the project"),
        field("refuse_others", &ProjectTable::refuse_others,
              "refuses runs of projects without an entry"),
        field("namespaces", &ProjectTable::namespaces,
              "further ones, in which the daemon finds its Pods and starts none"));
  }
};

// YAML; `name` is the file's, for errors.
Result<ProjectTable> parse_project_table(std::string_view text, std::string_view name);

// Code::denied: the table refuses the project.
Result<ProjectPods> pods_of_project(const ProjectTable& table, const std::string& project);

// The namespaces of the table besides the daemon's own, in the order of their names.
std::vector<std::string> further_namespaces(const ProjectTable& table, const std::string& own);

// The projects whose Pods are in the namespace, by their entries.
std::vector<std::string> projects_in(const ProjectTable& table, const std::string& in_namespace);

}  // namespace lockstep::k8s
