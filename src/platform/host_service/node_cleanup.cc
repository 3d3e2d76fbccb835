#include "platform/host_service/node_cleanup.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/log.h"
#include "base/os/file_lock.h"
#include "base/os/files.h"
#include "platform/host/node_files.h"
#include "platform/host/sweep.h"
#include "platform/spool/abandoned_spool.h"

namespace lockstep::host_service {
namespace {

namespace fs = std::filesystem;

constexpr Duration kScanInterval = std::chrono::hours(1);
constexpr Duration kCleanupRetry = std::chrono::seconds(10);
constexpr Bytes kItemsAtOnce = 256_KiB;
constexpr std::size_t kFoldersAtOnce = 1000;

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(file, ignored));
}

// Empty if it is none.
std::vector<fs::path> subfolders(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const fs::path& path : list_folder(folder).value_or(std::vector<fs::path>())) {
    std::error_code ignored;
    if (fs::is_directory(fs::symlink_status(path, ignored))) found.push_back(path);
  }
  return found;
}

struct FoundRun {
  std::string generation;
  model::RunId run;
  fs::path folder;
};

// Those of generations, below runs/GENERATION/PROJECT/NUMBER.
std::vector<FoundRun> runs_below(const fs::path& home) {
  std::vector<FoundRun> found;
  for (const fs::path& generation : subfolders(home / "runs")) {
    if (!model::check_generation(generation.filename().string())) continue;
    for (const fs::path& project : subfolders(generation))
      for (const fs::path& number : subfolders(project)) {
        const auto run = model::parse_run_id(
            format("{}/{}", project.filename().string(), number.filename().string()));
        if (run) found.push_back({generation.filename().string(), *run, number});
      }
  }
  return found;
}

// "attempt-2/node-0" below the run's folder.
std::vector<model::NodeName> nodes_of(const FoundRun& run) {
  const auto number_of = [](const fs::path& path, std::string_view prefix) {
    const std::string name = path.filename().string();
    return name.starts_with(prefix) ? name.substr(prefix.size()) : std::string("?");
  };
  std::vector<model::NodeName> found;
  for (const fs::path& attempt : subfolders(run.folder))
    for (const fs::path& node : subfolders(attempt)) {
      const auto name =
          model::parse_node_name(format("{}:{}.{}/{}", run.generation, text(run.run),
                                        number_of(attempt, "attempt-"), number_of(node, "node-")));
      if (name) found.push_back(*name);
    }
  return found;
}

}  // namespace

void NodeCleanup::work(const std::set<model::NodeName>& present,
                       const std::set<model::NodeName>& ordered) {
  present_.insert(ordered.begin(), ordered.end());
  for (const model::NodeName& node : present_)
    if (!present.contains(node)) ended_.insert(node);
  present_ = present;
  if (next_scan_.passed()) {
    next_scan_ = Deadline::after(kScanInterval);
    find_nodes();
    log_failure("the files of old runs", remove_old_files());
  }
  if (!retry_.passed()) return;
  for (auto node = ended_.begin(); node != ended_.end();) {
    const auto done = present.contains(*node) ? Result<void>() : clean_up(*node);
    if (done) {
      node = ended_.erase(node);
      continue;
    }
    log_failure(text(*node), done);
    retry_ = Deadline::after(kCleanupRetry);
    // The others need the daemon, too; a failure of another kind is that of this node.
    if (done.error().code == Code::unavailable || done.error().code == Code::timeout) return;
    ++node;
  }
}

void NodeCleanup::find_nodes() {
  for (const FoundRun& run : runs_below(setup_.home))
    for (const model::NodeName& node : nodes_of(run))
      if (is_there(host::NodeFiles{host::node_folder(setup_.home, node)}.launch_file()))
        ended_.insert(node);
}

// A lock that is held belongs to an agent that is not listed yet.
Result<void> NodeCleanup::clean_up(const model::NodeName& node) {
  const host::NodeFiles files{host::node_folder(setup_.home, node)};
  const host::OwnersAccess as_owner(files.folder);
  if (!is_there(files.launch_file()) || is_locked(files.lock())) return {};
  std::error_code none;
  if (const auto size = fs::file_size(files.spool(), none); !none && size > 0)
    TRY(deliver_spool(node, files.spool()));
  return host::sweep_leftovers(
      files, host::socket_folders(setup_.token_of(node), host::owner_of(files.folder)));
}

Result<void> NodeCleanup::deliver_spool(const model::NodeName& node, const fs::path& spool) {
  auto items = TRY(spool::AbandonedSpool::open(spool));
  api::CollectAnswer answer = TRY(setup_.collect({.node = text(node)}));
  while (answer.known) {
    api::CollectRequest request{.node = text(node),
                                .items = TRY(items.batch(answer.acknowledged, kItemsAtOnce))};
    if (request.items.empty()) return {};
    const std::int64_t before = answer.acknowledged;
    answer = TRY(setup_.collect(request));
    if (answer.acknowledged <= before)
      return Error{Code::unavailable, "the daemon stores no items now"};
  }
  LS_LOG(warning, "the daemon does not know {}: what it had left to deliver is dropped",
         text(node));
  return {};
}

Result<void> NodeCleanup::remove_old_files() {
  const auto runs = runs_below(setup_.home);
  for (std::size_t from = 0; from < runs.size(); from += kFoldersAtOnce) {
    api::RunFolders question;
    for (std::size_t i = from; i < std::min(runs.size(), from + kFoldersAtOnce); ++i)
      question.folders.push_back({.generation = runs[i].generation, .run = text(runs[i].run)});
    const api::RunFolders answer = TRY(setup_.kept_files(question));
    for (const api::RunFolder& folder : answer.folders) TRY(remove(folder));
  }
  return {};
}

// Nothing of a run with a node that was not cleaned up.
Result<void> NodeCleanup::remove(const api::RunFolder& folder) {
  if (folder.kept == api::KeptFiles::all) return {};
  TRY(model::check_generation(folder.generation));
  const FoundRun run{
      folder.generation, TRY(model::parse_run_id(folder.run)),
      host::run_folder(setup_.home, folder.generation, TRY(model::parse_run_id(folder.run)))};
  const auto nodes = nodes_of(run);
  for (const model::NodeName& node : nodes)
    if (present_.contains(node) ||
        is_there(host::NodeFiles{host::node_folder(setup_.home, node)}.launch_file()))
      return {};
  for (const model::NodeName& node : nodes)
    TRY(host::sweep_logs({host::node_folder(setup_.home, node)}));
  if (folder.kept != api::KeptFiles::none) return {};
  std::error_code failed;
  fs::remove_all(run.folder, failed);
  if (failed) return os_error("removing " + run.folder.string(), failed.value());
  return {};
}

void NodeCleanup::log_failure(const std::string& what, const Result<void>& done) {
  if (!done) LS_LOG(warning, "cleaning up after {}: {}", what, done.error().message);
}

}  // namespace lockstep::host_service
