#include "apps/run/startable.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "base/format.h"
#include "base/os/environment.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

Result<void> check_folder(const fs::path& folder) {
  std::error_code failure;
  if (fs::is_directory(folder, failure)) return {};
  const char* why = fs::exists(folder, failure) ? "is not a folder" : "does not exist";
  return Error{Code::invalid,
               format("working_folder: {} {}; ranks start there", folder.string(), why)};
}

Result<void> check_venv(const fs::path& folder) {
  std::error_code failure;
  if (fs::exists(folder / "bin" / "activate", failure)) return {};
  return Error{Code::invalid,
               format("venv: {0} is no venv: it has no bin/activate; create one with `python3 -m "
                      "venv {0}`",
                      folder.string())};
}

Result<void> check_path(const std::string& name, const fs::path& path) {
  if (is_program(path)) return {};
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    return Error{Code::invalid, format("command: {} is a folder; name a program", name)};
  if (!fs::exists(path, ignored))
    return Error{Code::invalid,
                 format("command: there is no {}; name a program that is there", path.string())};
  return Error{Code::invalid,
               format("command: {0} is not executable; `chmod +x {0}`, or name its interpreter "
                      "first, as in `python {0}`",
                      name)};
}

Error not_in_path(const std::string& name, const fs::path& folder) {
  if (is_file(folder / name))
    return {Code::invalid, format("command: there is no program '{0}' in PATH; for the file of "
                                  "this folder write `python {0}` or `./{0}`",
                                  name)};
  return {
      Code::invalid,
      format("command: there is no program '{}' in PATH; install it, or give its full path", name)};
}

}  // namespace

Result<void> check_startable(const model::RunSpec& spec) {
  const fs::path folder = spec.working_folder;
  const std::string& name = spec.command.front();
  TRY(check_folder(folder));
  if (spec.venv) TRY(check_venv(*spec.venv));
  // Agents add the folder of their own program to PATH.
  if (spec.conda || spec.module || spec.image || name == "lockstep") return {};
  if (spec.venv && is_program(fs::path(*spec.venv) / "bin" / name)) return {};
  if (name.find('/') != std::string::npos) return check_path(name, folder / name);
  if (find_program(name, spec.env, folder)) return {};
  return not_in_path(name, folder);
}

}  // namespace lockstep::cli
