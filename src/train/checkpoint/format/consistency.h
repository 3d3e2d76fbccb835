// Whether a manifest fits together. Its checksum guards against accidents only; whoever can write
// into the folder can make one that lies, and must not get more than a refusal out of it.
#pragma once

#include "base/result.h"
#include "train/checkpoint/format/manifest.h"

namespace lockstep {

// corrupt, naming the first thing that is wrong: a name that is none of ours or there twice, a
// count below zero, slices with holes or overlaps, bytes outside of a file or of two tensors.
Result<void> check_consistency(const Manifest& manifest);

}  // namespace lockstep
