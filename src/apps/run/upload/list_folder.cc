#include "apps/run/upload/list_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <set>
#include <system_error>

#include <sys/stat.h>
#include <sys/wait.h>

#include "base/format.h"
#include "base/utf8.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using Paths = std::set<std::string>;  // below the folder

constexpr int kNoProgram = 127;  // of a shell

std::string word_of_shell(const std::string& word) {
  std::string result = "'";
  for (char c : word) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

struct GitList {
  int status = 0;  // as a shell shows it
  std::string paths{};
};

GitList ask_git(const fs::path& folder) {
  const std::string command = format(
      "GIT_OPTIONAL_LOCKS=0 git -C {} ls-files --cached --others --exclude-standard -z "
      "</dev/null 2>/dev/null",
      word_of_shell(folder.string()));
  GitList list{.status = kNoProgram};
  FILE* pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) return list;
  char buffer[1 << 16];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe))
    list.paths.append(buffer, n);
  const int status = ::pclose(pipe);
  list.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  return list;
}

bool is_in_checkout(const fs::path& folder) {
  std::error_code ignored;
  for (fs::path above = fs::weakly_canonical(folder, ignored);; above = above.parent_path()) {
    if (fs::exists(above / ".git", ignored)) return true;
    if (above == above.parent_path()) return false;
  }
}

// All below `inside`, which is below the folder, except for folders of git.
Result<void> add_all(const fs::path& folder, const fs::path& inside, Paths& paths) {
  std::error_code failed;
  fs::directory_iterator entry(folder / inside, failed), end;
  for (; !failed && entry != end; entry.increment(failed)) {
    const fs::path path = inside / entry->path().filename();
    if (path.filename() == ".git") continue;
    if (entry->is_directory(failed) && !entry->is_symlink(failed))
      TRY(add_all(folder, path, paths));
    else
      paths.insert(path.string());
  }
  if (failed) return os_error("listing " + (folder / inside).string(), failed.value());
  return {};
}

// A submodule or another checkout is a folder in git's list.
Result<void> add_listed(const fs::path& folder, const std::string& listed, Paths& paths) {
  for (std::size_t begin = 0; begin < listed.size();) {
    const std::size_t end = std::min(listed.find('\0', begin), listed.size());
    std::string path = listed.substr(begin, end - begin);
    begin = end + 1;
    while (path.ends_with('/')) path.pop_back();
    std::error_code ignored;
    if (fs::is_directory(fs::symlink_status(folder / path, ignored)))
      TRY(add_all(folder, path, paths));
    else
      paths.insert(std::move(path));
  }
  return {};
}

Result<Paths> paths_of(const fs::path& folder) {
  Paths paths;
  const GitList list = ask_git(folder);
  if (list.status == 0) {
    TRY(add_listed(folder, list.paths, paths));
    return paths;
  }
  if (list.status != kNoProgram && is_in_checkout(folder))
    return Error{Code::invalid, format("--upload: `git ls-files` fails in {}: run it there to see "
                                       "why",
                                       folder.string())};
  TRY(add_all(folder, "", paths));
  return paths;
}

// Relative to the link's folder; an absolute one may lead into the folder, too.
Result<std::string> target_of(const fs::path& folder, const fs::path& link) {
  std::error_code failed;
  fs::path target = fs::read_symlink(folder / link, failed);
  if (failed) return os_error("reading the link " + (folder / link).string(), failed.value());
  if (target.is_absolute())
    target = target.lexically_normal().lexically_relative((folder / link).parent_path());
  return target.string();
}

Result<void> add_path(const fs::path& folder, const std::string& path, FolderToUpload& found) {
  struct stat info{};
  if (::lstat((folder / path).c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return {};  // git lists a removed file
    return os_error("reading " + (folder / path).string(), errno);
  }
  if (!is_utf8(path))
    return Error{Code::invalid, format("--upload: the name of '{}' is not UTF-8; rename it",
                                       escape_controls(path))};
  if (S_ISREG(info.st_mode)) {
    found.manifest.files.push_back(
        {.path = path, .size = Bytes(info.st_size), .executable = (info.st_mode & S_IXUSR) != 0});
    return {};
  }
  if (!S_ISLNK(info.st_mode)) {
    found.left_out.push_back(format("{} is no file", path));
    return {};
  }
  std::string target = TRY(target_of(folder, path));
  if (model::link_target(path, target))
    found.manifest.files.push_back({.path = path, .link = std::move(target)});
  else
    found.left_out.push_back(format("{} is a link out of the folder", path));
  return {};
}

}  // namespace

Result<FolderToUpload> list_folder_to_upload(const fs::path& folder) {
  FolderToUpload found;
  for (const std::string& path : TRY(paths_of(folder))) TRY(add_path(folder, path, found));
  std::error_code ignored;
  if (found.manifest.files.empty() && !fs::is_empty(folder, ignored))
    return Error{Code::invalid, format("--upload: {} has nothing to send: git ignores its files",
                                       folder.string())};
  return found;
}

}  // namespace lockstep::cli
