// Writing one checkpoint, durably and all or nothing: the files, each synced; the manifest last;
// one rename that makes the folder visible. What fails leaves the earlier checkpoints as they were.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "train/checkpoint/fence.h"
#include "train/checkpoint/state.h"

namespace lockstep {

// Tensors of `state` are on the CPU and contiguous. The path of the finished checkpoint.
Result<std::filesystem::path> write_checkpoint(const std::filesystem::path& folder,
                                               const Fence& fence, const TrainingState& state);

// Deletes all but the newest `keep` checkpoints.
Result<void> prune_checkpoints(const std::filesystem::path& folder, const Fence& fence, int keep);
// Deletes what writers left unfinished; for the one who holds the fence.
Result<void> remove_leftovers(const std::filesystem::path& folder);

}  // namespace lockstep
