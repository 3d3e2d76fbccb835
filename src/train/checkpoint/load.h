// From a checkpoint into what this rank owns, whoever wrote it: each rank reads the slices that its
// intervals meet, and no more.
#pragma once

#include <vector>

#include "base/result.h"
#include "train/checkpoint/format/saved.h"
#include "train/owned.h"

namespace lockstep {

// Whether the checkpoint has each of these tensors with its shape and type. invalid, naming what is
// missing or differs (the first few).
Result<void> check_fits(const Manifest& manifest, const std::vector<OwnedTensor>& tensors);
// Whether the tensors are all that the checkpoint has, besides random states. invalid, naming what
// is too much.
Result<void> check_complete(const Manifest& manifest, const std::vector<OwnedTensor>& tensors);

// Fills the tensors, which fit. After an error they hold some of both. Needs memory for 256 MiB of
// tensors that are not in the host's memory, or for the largest.
Result<void> load(const SavedCheckpoint& checkpoint, const std::vector<OwnedTensor>& tensors);

}  // namespace lockstep
