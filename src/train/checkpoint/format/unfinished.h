// From files that are being written to a checkpoint that counts: a folder under a hidden name, the
// manifest last, one rename. A process that is killed at any moment leaves what was there before.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "train/checkpoint/format/fence.h"
#include "train/checkpoint/format/manifest.h"

namespace lockstep {

// Where the ranks write the files of this step; no other claim of the folder has this opening.
std::filesystem::path unfinished_path(const std::filesystem::path& folder, std::int64_t step,
                                      std::string_view opening);

// Writes the manifest beside the files, which are durable, and makes the checkpoint visible. Its
// path. denied if another writer has claimed the folder; an error, too, where a file is not there.
Result<std::filesystem::path> commit_checkpoint(const std::filesystem::path& folder,
                                                const Fence& fence, const Manifest& manifest);
// Deletes what was written for this step. Errors are logged: the next claim deletes it too.
void discard_unfinished(const std::filesystem::path& folder, std::int64_t step,
                        std::string_view opening);

// Deletes all but the newest `keep` checkpoints.
Result<void> prune_checkpoints(const std::filesystem::path& folder, const Fence& fence, int keep);
// Deletes what earlier writers left unfinished. denied if another writer has claimed the folder.
// What cannot be deleted is logged.
Result<void> remove_leftovers(const std::filesystem::path& folder, const Fence& fence);

}  // namespace lockstep
