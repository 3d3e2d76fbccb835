#include "apps/k8s/project_file.h"

#include <cstddef>
#include <utility>

#include "base/os/files.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kTableMax = 1u << 20;

}  // namespace

Result<std::string> project_table_text(const std::optional<std::string>& file) {
  if (!file) return std::string();
  auto text = read_file(*file, kTableMax);
  if (!text) return std::move(text).error().with_context("--project-namespaces");
  return text;
}

Result<k8s::ProjectTable> project_table(const std::optional<std::string>& file) {
  if (!file) return k8s::ProjectTable();
  return k8s::parse_project_table(TRY(project_table_text(file)), *file);
}

}  // namespace lockstep::cli
