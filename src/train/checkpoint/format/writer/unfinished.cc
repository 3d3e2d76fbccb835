#include "train/checkpoint/format/writer/unfinished.h"

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

#include "base/format.h"
#include "base/log.h"
#include "base/os/files.h"
#include "train/checkpoint/format/list_checkpoints.h"
#include "train/checkpoint/format/tensor_file/data_file.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

Result<void> delete_all(const fs::path& path) {
  std::error_code failed;
  fs::remove_all(path, failed);
  if (failed) return os_error(format("deleting {}", path.string()), failed.value());
  return {};
}

Result<void> move_folder(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    return os_error(format("renaming {} to {}", from.string(), to.string()), errno);
  return {};
}

// Renames it, so that a partly deleted folder is not taken for a checkpoint.
Result<fs::path> retire(const fs::path& checkpoint) {
  const auto retired =
      checkpoint.parent_path() / format(".{}.old.tmp", checkpoint.filename().string());
  TRY(delete_all(retired));
  TRY(move_folder(checkpoint, retired));
  return retired;
}

// Under the lock, so that no later attempt loses the checkpoint from which it resumes.
Result<fs::path> retire_as(const Fence& fence, const fs::path& checkpoint) {
  const auto lock = TRY(fence.lock());
  TRY(fence.check());
  return retire(checkpoint);
}

// Under the lock, and while the claim holds: so none of them belongs to a later writer. Their names
// are never used again, so they can be deleted afterwards.
Result<std::vector<fs::path>> leftovers_in(const fs::path& folder, const Fence& fence) {
  const auto lock = TRY(fence.lock());
  TRY(fence.check());
  std::vector<fs::path> found;
  for (const auto& path : TRY(list_folder(folder))) {
    const auto name = path.filename().string();
    const bool is_ours = name.find(fence.claim_id()) != std::string::npos;
    const bool is_temporary =
        name.starts_with(".step-") || name.starts_with(".WRITER.") || name.starts_with("WRITER.");
    if (is_temporary && name.ends_with(".tmp") && !is_ours) found.push_back(path);
  }
  return found;
}

// Under the lock, so that a claim that is checked here still holds when the rename is done.
Result<void> make_visible(const fs::path& written, const fs::path& final, const Fence& fence) {
  const auto lock = TRY(fence.lock());
  TRY(fence.check());
  // Only a torn one, or one of a step that is trained again, can exist already.
  std::error_code ignored;
  if (fs::exists(final, ignored)) TRY(delete_all(TRY(retire(final))));
  TRY(move_folder(written, final));
  return sync_folder(final.parent_path());
}

// The ranks may have written into another folder of the same name, on another file system.
Result<void> check_written(const fs::path& written, const Manifest& manifest,
                           const std::set<std::string>& elsewhere) {
  for (const auto& file : manifest.files) {
    if (elsewhere.contains(file.name)) continue;
    if (auto opened = DataReader::open(written / file.name, file); !opened)
      return std::move(opened).error().with_context("is the folder the same one on all hosts?");
  }
  return {};
}

}  // namespace

fs::path unfinished_path(const fs::path& folder, std::int64_t step, std::string_view claim_id) {
  return folder / format(".{}.{}.tmp", checkpoint_name(step), claim_id);
}

Result<fs::path> commit_checkpoint(const fs::path& folder, const Fence& fence,
                                   const Manifest& manifest,
                                   const std::set<std::string>& elsewhere) {
  const auto written = unfinished_path(folder, manifest.step, fence.claim_id());
  const auto final = folder / checkpoint_name(manifest.step);
  TRY(fence.check());
  TRY(check_written(written, manifest, elsewhere));
  TRY(write_file(written / kManifestName, text(manifest)));
  TRY(make_visible(written, final, fence));
  return final;
}

void discard_unfinished(const fs::path& folder, std::int64_t step, std::string_view claim_id) {
  if (auto removed = delete_all(unfinished_path(folder, step, claim_id)); !removed)
    LS_LOG(warning, "{}", removed.error().message);
}

Result<void> prune_checkpoints(const fs::path& folder, const Fence& fence, int keep) {
  const auto present = TRY(list_checkpoints(folder));
  for (auto i = static_cast<std::size_t>(keep); i < present.size(); ++i)
    TRY(delete_all(TRY(retire_as(fence, present[i].path))));
  return {};
}

Result<void> remove_leftovers(const fs::path& folder, const Fence& fence) {
  for (const auto& path : TRY(leftovers_in(folder, fence)))
    if (auto removed = delete_all(path); !removed) LS_LOG(warning, "{}", removed.error().message);
  return {};
}

}  // namespace lockstep::train
