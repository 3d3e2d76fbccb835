// From files that are being written to a checkpoint that counts: a folder under a hidden name, the
// manifest last, one rename. Whoever is killed at any moment leaves what was there before.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "train/checkpoint/format/fence.h"
#include "train/checkpoint/format/manifest.h"

namespace lockstep {

// Where the ranks of attempt `epoch` write the files of this step: ".step-00000100.3.tmp".
std::filesystem::path unfinished_path(const std::filesystem::path& folder, std::int64_t step,
                                      std::int64_t epoch);

// Writes the manifest beside the files, which are durable, and makes the checkpoint visible. Its
// path. denied if a later attempt has claimed the folder; an error, too, where a file is not there.
Result<std::filesystem::path> commit_checkpoint(const std::filesystem::path& folder,
                                                const Fence& fence, const Manifest& manifest);
// Deletes what was written for this step. Errors are logged: the next claim deletes it too.
void discard_unfinished(const std::filesystem::path& folder, std::int64_t step, std::int64_t epoch);

// Deletes all but the newest `keep` checkpoints.
Result<void> prune_checkpoints(const std::filesystem::path& folder, const Fence& fence, int keep);
// Deletes what writers left unfinished; for the one who holds the fence.
Result<void> remove_leftovers(const std::filesystem::path& folder);

}  // namespace lockstep
