#include "train/checkpoint/persist.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/format.h"
#include "text/convert.h"
#include "text/json.h"
#include "train/checkpoint/format/data_file.h"
#include "train/checkpoint/format/list.h"
#include "train/checkpoint/format/unfinished.h"
#include "train/checkpoint/gather.h"

namespace lockstep {
namespace {

// What was written, as words for the others.
Result<std::string> write_share(const PersistTask& task, const Result<void>& begun, int rank) {
  if (!begun) return begun.error();
  const auto folder = unfinished_path(task.folder, task.manifest.step, task.opening);
  TRY(make_folders(folder));
  auto file = TRY(DataWriter::create_past_cache(folder / data_file_name(rank)));
  const auto coming = [&](std::size_t count) { return task.snapshot.await(count); };
  TRY(file.append(task.snapshot.bytes(), coming));
  TRY(task.copied());
  return dump_json(to_json(TRY(std::move(file).finish())));
}

Result<std::vector<SavedFile>> read_files(const std::vector<std::string>& told) {
  std::vector<SavedFile> files;
  for (const auto& words : told) files.push_back(TRY(from_json<SavedFile>(TRY(parse_json(words)))));
  return files;
}

// Rank 0's part. The words are the checkpoint's path.
Result<std::string> commit(const PersistTask& task, const std::vector<std::string>& told) {
  auto manifest = task.manifest;
  manifest.files = TRY(read_files(told));
  const auto path = TRY(commit_checkpoint(task.folder, *task.fence, manifest));
  if (task.saved) task.saved(manifest.step, path);
  TRY(prune_checkpoints(task.folder, *task.fence, task.keep));
  return path.string();
}

// A later writer also deletes what this one was writing: then that is the reason.
Error reason(const PersistTask& task, Error failed) {
  discard_unfinished(task.folder, task.manifest.step, task.opening);
  auto fenced = task.fence->check();
  const auto path = task.folder / checkpoint_name(task.manifest.step);
  auto error = fenced ? std::move(failed) : std::move(fenced).error();
  return std::move(error).within(format("saving {}", path.string()));
}

}  // namespace

Result<void> persist(const PersistTask& task, const Result<void>& begun, Comm& group) {
  const auto share = write_share(task, begun, group.rank());
  const auto told = gather(group, share, "which files of a checkpoint are written");
  Result<std::string> outcome = std::string();
  if (group.rank() == 0) {
    outcome = told ? commit(task, *told) : Result<std::string>(told.error());
    if (!outcome) outcome = reason(task, std::move(outcome).error());
  }
  TRY(tell(group, outcome, "whether the checkpoint is complete"));
  return {};
}

}  // namespace lockstep
