// Loads a checkpoint into the tensors that this rank owns, whichever ranks wrote it: each rank
// reads the slices that overlap its intervals, and no more.
#pragma once

#include <vector>

#include "base/result.h"
#include "train/checkpoint/format/saved_checkpoint.h"
#include "train/engine/owned_tensor.h"

namespace lockstep::train {

// Checks that the checkpoint has each of these tensors with its shape and type. invalid, naming
// those that are missing or differ (the first few).
Result<void> check_fits(const Manifest& manifest, const std::vector<OwnedTensor>& tensors);
// Checks that the tensors are all that the checkpoint has, besides random states. invalid, naming
// the surplus ones.
Result<void> check_complete(const Manifest& manifest, const std::vector<OwnedTensor>& tensors);

// Fills the tensors, which fit. After an error they hold a mixture of old and new values. Needs
// memory for 256 MiB of tensors that are not in the host's memory, or for the largest.
Result<void> load(const SavedCheckpoint& checkpoint, const std::vector<OwnedTensor>& tensors);

}  // namespace lockstep::train
