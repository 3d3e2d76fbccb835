// Turns files that are being written into a valid checkpoint: a folder under a hidden name, the
// manifest last, one rename. If the process is killed at any moment, the earlier checkpoints stay.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "train/checkpoint/format/manifest.h"
#include "train/checkpoint/format/writer/fence.h"

namespace lockstep::train {

// The folder of the ranks' files of this step; no other claim of the folder has this id.
std::filesystem::path unfinished_path(const std::filesystem::path& folder, std::int64_t step,
                                      std::string_view claim_id);

// Writes the manifest beside the files, which are durable, and makes the checkpoint visible.
// Returns its path. denied if another writer has claimed the folder; also an error if a file is
// missing, unless it is `elsewhere`: in the folder of another host.
Result<std::filesystem::path> commit_checkpoint(const std::filesystem::path& folder,
                                                const Fence& fence, const Manifest& manifest,
                                                const std::set<std::string>& elsewhere = {});
// Deletes what was written for this step. Errors are logged: the next claim deletes it too.
void discard_unfinished(const std::filesystem::path& folder, std::int64_t step,
                        std::string_view claim_id);

// Deletes all but the newest `keep` checkpoints.
Result<void> prune_checkpoints(const std::filesystem::path& folder, const Fence& fence, int keep);
// Deletes what earlier writers left unfinished. denied if another writer has claimed the folder.
// A folder that cannot be deleted is logged.
Result<void> remove_leftovers(const std::filesystem::path& folder, const Fence& fence);

}  // namespace lockstep::train
