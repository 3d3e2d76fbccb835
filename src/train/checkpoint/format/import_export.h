// Exports a checkpoint's model as a safetensors file or as a file of torch's, and imports
// safetensors. Tensors have their names in the module, and are whole, however they were divided
// among ranks.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "base/units.h"
#include "train/checkpoint/format/saved_checkpoint.h"

namespace lockstep::train {

struct ImportExportSummary {
  std::int64_t tensors = 0;
  Bytes bytes;
};

// Writes the parameters and buffers, without the optimizer's state. Replaces the file in one step.
// The file's metadata lists which tensors are buffers, and the program's notes.
Result<ImportExportSummary> export_safetensors(const SavedCheckpoint& checkpoint,
                                               const std::filesystem::path& file,
                                               const ProgressCallback& watch = nullptr);

// The same as a dict of tensors that torch.load(file, weights_only=True) reads.
Result<ImportExportSummary> export_torch(const SavedCheckpoint& checkpoint,
                                         const std::filesystem::path& file,
                                         const ProgressCallback& watch = nullptr);

// Makes the file's tensors a checkpoint of step 0 in this folder, from which a training starts with
// a fresh optimizer. already_exists: the folder holds checkpoints. A tensor that the metadata does
// not list as a buffer is a parameter.
Result<ImportExportSummary> import_safetensors(const std::filesystem::path& file,
                                               const std::filesystem::path& folder,
                                               const ProgressCallback& watch = nullptr);

}  // namespace lockstep::train
