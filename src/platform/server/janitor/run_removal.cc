#include "platform/server/janitor/run_removal.h"

#include <chrono>
#include <set>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

#include "platform/host/node_files.h"
#include "platform/host/sweep.h"

namespace lockstep::server {
namespace {

namespace fs = std::filesystem;

Error removal_error(const fs::path& path, const std::error_code& failed) {
  return os_error("removing " + path.string(), failed.value());
}

// Follows no link. Missing files are no error. A folder is emptied with the rights of its owner: a
// user may put a link in its place at any moment.
Result<void> remove_tree(const fs::path& path, const std::atomic<bool>& stopped) {
  std::error_code failed;
  if (fs::is_directory(fs::symlink_status(path, failed))) {
    const host::OwnersAccess as_owner(path);
    if (host::owner_of(path) != ::geteuid()) ::chmod(path.c_str(), 0700);
    std::vector<fs::path> inside;
    for (const fs::directory_entry& entry : fs::directory_iterator(path, failed))
      inside.push_back(entry.path());
    if (failed) return removal_error(path, failed);
    for (const fs::path& entry : inside) {
      if (stopped) return {};
      TRY(remove_tree(entry, stopped));
    }
  }
  fs::remove(path, failed);
  if (failed) return removal_error(path, failed);
  return {};
}

Result<void> remove_trees(const std::vector<fs::path>& folders, const std::atomic<bool>& stopped) {
  for (const fs::path& folder : folders) TRY(remove_tree(folder, stopped));
  return {};
}

}  // namespace

// Attempts of another generation have folders elsewhere (docs/design/store.md).
std::vector<fs::path> RunRemoval::folders() const {
  std::set<fs::path> found{host::run_folder(home_, run_.generation, run_.id)};
  for (const model::NodeName& node : run_.nodes)
    found.insert(host::node_folder(home_, node).parent_path());
  return {found.begin(), found.end()};
}

Result<void> RunRemoval::remove_sockets() const {
  for (const model::NodeName& node : run_.nodes) {
    const host::NodeFiles files{host::node_folder(home_, node)};
    TRY(host::sweep_leftovers(files,
                              host::socket_folders(token_of_(node), host::owner_of(files.folder))));
  }
  return {};
}

Result<RunRemoval::Step> RunRemoval::work() {
  if (!removing_.valid()) {
    if (TRY(insight_.remove(run_.id))) return Step::worked;
    TRY(remove_sockets());
    removing_ = std::async(std::launch::async, [folders = folders(), stopped = stopped_.get()] {
      return remove_trees(folders, *stopped);
    });
    return Step::worked;
  }
  if (removing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return Step::waits;
  TRY(removing_.get());
  return Step::done;
}

}  // namespace lockstep::server
