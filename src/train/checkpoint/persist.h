// Persist: what the thread in the background does with a snapshot.
//
// Every rank writes its file and makes it durable; then the ranks tell each other how that went,
// with their files' checksums; then rank 0 writes the manifest and renames, and tells how that
// went. So a checkpoint is visible only when every byte of it is durable, all ranks give the same
// outcome, and a rank that fails at any point holds nobody up.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "train/checkpoint/format/fence.h"
#include "train/checkpoint/format/manifest.h"
#include "train/comm.h"

namespace lockstep {

struct PersistTask {
  std::filesystem::path folder;
  std::int64_t epoch = 0;
  const Fence* fence = nullptr;  // rank 0's
  int keep = 1;
  std::function<void(std::int64_t step, const std::filesystem::path& path)> saved;
  Manifest manifest;       // all but the files
  std::string_view bytes;  // of this rank's file
};

// `taken`: whether this rank has a snapshot at all; where not, the save fails on every rank.
Result<void> persist(const PersistTask& task, const Result<void>& taken, Comm& group);

}  // namespace lockstep
