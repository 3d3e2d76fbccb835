// The file of `--project-namespaces`.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "platform/k8s/project_table.h"

namespace lockstep::cli {

// Without a file: empty.
Result<std::string> project_table_text(const std::optional<std::string>& file);
Result<k8s::ProjectTable> project_table(const std::optional<std::string>& file);

}  // namespace lockstep::cli
