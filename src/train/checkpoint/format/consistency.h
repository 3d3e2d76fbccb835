// Checks that a manifest is consistent. Its checksum guards against accidents only. A user with
// write access to the folder can forge a manifest, and must not achieve more than a refusal.
#pragma once

#include "base/result.h"
#include "train/checkpoint/format/manifest.h"

namespace lockstep::train {

// corrupt, naming the first error: a name not in our format or listed twice, a negative count,
// slices with holes or overlaps, bytes outside of a file or in two tensors.
Result<void> check_consistency(const Manifest& manifest);

}  // namespace lockstep::train
