#include "base/os/environment.h"

#include <algorithm>
#include <array>
#include <system_error>

#include <unistd.h>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 8> kUserVariables = {"PATH",  "HOME", "USER", "LOGNAME",
                                                            "SHELL", "LANG", "TZ",   "VIRTUAL_ENV"};
constexpr std::array<std::string_view, 6> kNodePrefixes = {"NCCL_", "TORCH_NCCL_", "CUDA_",
                                                           "FI_",   "NVIDIA_",     "UCX_"};

}  // namespace

Environment own_environment() {
  Environment variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const auto equals = variable.find('=');
    if (equals != std::string_view::npos)
      variables.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
  return variables;
}

bool is_user_variable(std::string_view name) {
  return std::ranges::find(kUserVariables, name) != kUserVariables.end() || name.starts_with("LC_");
}

bool is_node_variable(std::string_view name) {
  return name == "LD_LIBRARY_PATH" ||
         std::ranges::any_of(kNodePrefixes, [&](auto prefix) { return name.starts_with(prefix); });
}

std::string search_path(const Environment& environment) {
  const auto path = environment.find("PATH");
  return path == environment.end() ? "/usr/bin:/bin" : path->second;
}

std::optional<fs::path> find_program(std::string_view name, const Environment& environment,
                                     const fs::path& folder) {
  const std::string folders = search_path(environment);
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    auto candidate = folder / folders.substr(begin, end - begin) / name;
    if (is_program(candidate)) return candidate;
    begin = end + 1;
  }
  return std::nullopt;
}

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace lockstep
