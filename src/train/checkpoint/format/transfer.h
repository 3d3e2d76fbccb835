// A checkpoint's model as a safetensors file, and the way back; or as a file of torch's. Tensors
// have the names that they have in the module, whole, however they were divided among ranks.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "base/units.h"
#include "train/checkpoint/format/saved.h"

namespace lockstep {

struct Transferred {
  std::int64_t tensors = 0;
  Bytes bytes;
};

// Writes the parameters and buffers; the optimizer's state stays behind. Replaces the file in one
// step. Which tensors are buffers, and the program's notes, go into the file's metadata.
Result<Transferred> export_safetensors(const SavedCheckpoint& checkpoint,
                                       const std::filesystem::path& file,
                                       const Watch& watch = nullptr);

// The same as a dict of tensors that torch.load(file, weights_only=True) reads.
Result<Transferred> export_torch(const SavedCheckpoint& checkpoint,
                                 const std::filesystem::path& file, const Watch& watch = nullptr);

// Makes the file's tensors a checkpoint of step 0 in this folder, from which a training begins with
// a fresh optimizer. already_exists: the folder holds checkpoints. What the metadata does not call
// a buffer is a parameter.
Result<Transferred> import_safetensors(const std::filesystem::path& file,
                                       const std::filesystem::path& folder,
                                       const Watch& watch = nullptr);

}  // namespace lockstep
