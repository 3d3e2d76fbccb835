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

// Rank 0's part. The text is the checkpoint's path.
Result<std::string> commit(const PersistTask& task, const std::vector<std::string>& shares) {
  auto manifest = task.manifest;
  manifest.files = TRY(read_files(shares));
  const auto path = TRY(commit_checkpoint(task.folder, *task.fence, manifest));
  if (task.on_saved) task.on_saved(manifest.step, path);
  TRY(prune_checkpoints(task.folder, *task.fence, task.keep));
  return path.string();
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
  Result<std::string> outcome = std::string();
  if (group.rank() == 0) {
    outcome = shares ? commit(task, *shares) : Result<std::string>(shares.error());
    if (!outcome) outcome = reason(task, std::move(outcome).error());
  }
  TRY(broadcast_text(group, outcome, "whether the checkpoint is complete"));
  return {};
}

}  // namespace lockstep::train
