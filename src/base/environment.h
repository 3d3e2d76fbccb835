// A process's environment: its own, what of one tells of the user, and where programs are by it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

using Environment = std::map<std::string, std::string>;

// This process's.
Environment own_environment();

// Of those that programs need to find themselves at home, whoever starts them: the user's name and
// folder, languages and time zone, where programs are.
bool is_of_user(std::string_view name);

// PATH, or where programs are without one.
std::string search_path(const Environment& environment);
// What execvp would find by that path; folders in it are meant from `folder`.
std::optional<std::filesystem::path> find_program(std::string_view name,
                                                  const Environment& environment,
                                                  const std::filesystem::path& folder);
// A file that this process may execute.
bool is_program(const std::filesystem::path& path);

}  // namespace lockstep
