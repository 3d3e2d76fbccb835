// A process's environment: the current one, the part that belongs to the user, and program look-up.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

using Environment = std::map<std::string, std::string>;

// The environment of this process.
Environment own_environment();

// True for variables that a program needs to work for its user, whichever program starts it: the
// user's name and home folder, the languages and time zone, the folders of programs.
bool is_user_variable(std::string_view name);

// True for variables that describe a machine's devices, network and libraries to the programs on
// it: NCCL_*, TORCH_NCCL_*, CUDA_*, FI_*, NVIDIA_*, UCX_* and LD_LIBRARY_PATH.
bool is_node_variable(std::string_view name);

// PATH, or the default folders of programs if it is unset.
std::string search_path(const Environment& environment);
// The program that execvp would find by that path; relative folders in it are relative to `folder`.
std::optional<std::filesystem::path> find_program(std::string_view name,
                                                  const Environment& environment,
                                                  const std::filesystem::path& folder);
// A file that this process may execute.
bool is_program(const std::filesystem::path& path);

}  // namespace lockstep
