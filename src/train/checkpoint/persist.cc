#include "train/checkpoint/persist.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/os/files.h"
#include "text/convert.h"
#include "text/json.h"
#include "train/checkpoint/format/list_checkpoints.h"
#include "train/checkpoint/format/tensor_file/data_file.h"
#include "train/checkpoint/format/writer/unfinished.h"
#include "train/checkpoint/text_collectives.h"

namespace lockstep::train {
namespace {

// This rank's part of the manifest, as text for the other ranks.
Result<std::string> write_share(const PersistTask& task, const Result<void>& begun, int rank) {
  if (!begun) return begun.error();
  const auto folder = unfinished_path(task.folder, task.manifest.step, task.claim_id);
  TRY(make_folders(folder));
  auto file = TRY(DataWriter::create_direct(folder / data_file_name(rank)));
  const auto coming = [&](std::size_t count) { return task.snapshot.wait_for_bytes(count); };
  TRY(file.append(task.snapshot.bytes(), coming));
  TRY(task.wait_for_copy());
  return dump_json(to_json(TRY(std::move(file).finish())));
}

Result<std::vector<SavedFile>> read_files(const std::vector<std::string>& shares) {
  std::vector<SavedFile> files;
  for (const auto& share : shares)
    files.push_back(TRY(from_json<SavedFile>(TRY(parse_json(share)))));
  return files;
}

Result<std::string> manifest_text(const PersistTask& task, const std::vector<std::string>& shares) {
  auto manifest = task.manifest;
  manifest.files = TRY(read_files(shares));
  return text(manifest);
}

// The part of a folder's keeper. The text is the checkpoint's path.
Result<std::string> commit(const PersistTask& task, const Manifest& manifest) {
  return TRY(commit_checkpoint(task.folder, *task.fence, manifest, task.hosts.files_elsewhere()))
      .string();
}

Result<std::string> commit_of_rank_0(const PersistTask& task, const Manifest& manifest) {
  auto path = TRY(commit(task, manifest));
  if (task.on_saved) task.on_saved(manifest.step, path);
  TRY(prune_checkpoints(task.folder, *task.fence, task.keep));
  return path;
}

// Each host has a folder. The text of rank 0 is that of the manifest, the same in all folders.
Result<Manifest> commit_on_other_hosts(const PersistTask& task,
                                       const Result<std::vector<std::string>>& shares,
                                       Comm& group) {
  const bool is_first = group.rank() == 0;
  Result<std::string> words = std::string();
  if (is_first) words = shares ? manifest_text(task, *shares) : Result<std::string>(shares.error());
  auto manifest =
      TRY(parse_manifest(TRY(broadcast_text(group, words, "the manifest of a checkpoint"))));
  Result<std::string> kept = std::string();
  if (!is_first && task.fence != nullptr) kept = commit(task, manifest);
  if (kept && !is_first && task.fence != nullptr)
    if (auto pruned = prune_checkpoints(task.folder, *task.fence, task.keep); !pruned)
      kept = pruned.error();
  TRY(all_gather_text(group, kept, "which hosts have a checkpoint"));
  return manifest;
}

// A later writer also deletes the unfinished files of this one: then that is the reason.
Error reason(const PersistTask& task, Error failed) {
  discard_unfinished(task.folder, task.manifest.step, task.claim_id);
  auto fenced = task.fence->check();
  const auto path = task.folder / checkpoint_name(task.manifest.step);
  auto error = fenced ? std::move(failed) : std::move(fenced).error();
  return std::move(error).with_context(format("saving {}", path.string()));
}

}  // namespace

Result<void> persist(const PersistTask& task, const Result<void>& begun, Comm& group) {
  const auto share = write_share(task, begun, group.rank());
  const auto shares = all_gather_text(group, share, "which files of a checkpoint are written");
  auto manifest = Result<Manifest>(task.manifest);
  if (!task.hosts.are_shared()) {
    manifest = commit_on_other_hosts(task, shares, group);
  } else if (group.rank() == 0) {
    auto files = shares ? read_files(*shares) : Result<std::vector<SavedFile>>(shares.error());
    if (files)
      manifest->files = *std::move(files);
    else
      manifest = std::move(files).error();
  }
  Result<std::string> outcome = std::string();
  if (group.rank() == 0) {
    outcome = manifest ? commit_of_rank_0(task, *manifest) : Result<std::string>(manifest.error());
    if (!outcome) outcome = reason(task, std::move(outcome).error());
  }
  auto ended = broadcast_text(group, outcome, "whether the checkpoint is complete");
  if (!ended && group.rank() != 0 && task.fence != nullptr)
    discard_unfinished(task.folder, task.manifest.step, task.claim_id);
  TRY(std::move(ended));
  return {};
}

}  // namespace lockstep::train
