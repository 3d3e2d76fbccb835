#include "platform/host/sweep.h"

#include <cerrno>
#include <string>
#include <vector>

#include <unistd.h>

#include "base/os/files.h"
#include "platform/host/log_rotation.h"

namespace lockstep::host {
namespace {

namespace fs = std::filesystem;

Result<void> remove_file(const fs::path& file) {
  if (::unlink(file.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return {};
  return os_error("removing " + file.string(), errno);
}

// Empty if there is no such folder.
Result<std::vector<fs::path>> files_in(const fs::path& folder) {
  auto found = list_folder(folder);
  if (!found && found.error().code == Code::not_found) return std::vector<fs::path>();
  return found;
}

// Removes files only: a subfolder is not Lockstep's and stays. A rank may have put a link in the
// folder's place: then the link is removed, and not the files behind it.
Result<void> remove_folder_of_files(const fs::path& folder) {
  std::error_code ignored;
  if (fs::is_symlink(fs::symlink_status(folder, ignored))) return remove_file(folder);
  for (const fs::path& file : TRY(files_in(folder))) TRY(remove_file(file));
  if (::rmdir(folder.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return {};
  return os_error("removing " + folder.string(), errno);
}

bool is_rank_log(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.starts_with("rank-") && (name.ends_with(".log") || name.ends_with(".log.1"));
}

// The files that the owner of the node's folder may remove; the folder is not one of them.
Result<void> remove_logs(const NodeFiles& files) {
  const OwnersAccess as_owner(files.folder);
  for (const fs::path& file : TRY(files_in(files.folder)))
    if (is_rank_log(file)) TRY(remove_file(file));
  TRY(remove_file(files.agent_log()));
  TRY(remove_file(rotated_log(files.agent_log())));
  TRY(remove_file(files.lock()));
  for (const fs::path& folder : {files.flight(), files.profile(), files.delivered_traces()})
    TRY(remove_folder_of_files(folder));
  return remove_file(files.delivered_flight());
}

}  // namespace

Result<void> sweep_leftovers(const NodeFiles& files, std::span<const fs::path> socket_folders) {
  const OwnersAccess as_owner(files.folder);
  TRY(remove_file(files.spool()));
  TRY(remove_file(files.secret()));
  for (const fs::path& file : TRY(files_in(files.folder)))
    if (file.extension() == ".tmp")
      TRY(remove_file(file));  // left by a killed agent during a write
  for (const fs::path& folder : socket_folders) TRY(remove_folder_of_files(folder));
  return remove_file(files.launch_file());
}

Result<void> sweep_logs(const NodeFiles& files) {
  TRY(remove_logs(files));
  ::rmdir(files.folder.c_str());  // unless other files are there
  ::rmdir(files.folder.parent_path().c_str());
  return {};
}

}  // namespace lockstep::host
