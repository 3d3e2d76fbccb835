// Persist: what the thread in the background does with a snapshot.
//
// Every rank writes its file, from the beginning on as far as it is copied, and makes it durable;
// then the ranks tell each other how that went, with their files' checksums; then rank 0 writes the
// manifest and renames, and tells how that went. So a checkpoint is visible only when every byte of
// it is durable, all ranks give the same outcome, and a rank that fails at any point holds nobody
// up.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "train/checkpoint/format/fence.h"
#include "train/checkpoint/format/manifest.h"
#include "train/checkpoint/snapshot.h"
#include "train/comm.h"

namespace lockstep {

struct PersistTask {
  std::filesystem::path folder;
  std::string opening;           // the claim's
  const Fence* fence = nullptr;  // rank 0's
  int keep = 1;
  std::function<void(std::int64_t step, const std::filesystem::path& path)> saved;
  Manifest manifest;         // all but the files
  const Snapshot& snapshot;  // of this rank's file
  // Whether the snapshot was taken, once it is complete; where not, the save fails on every rank.
  std::function<Result<void>()> copied;
};

// `begun`: whether it is being taken at all.
Result<void> persist(const PersistTask& task, const Result<void>& begun, Comm& group);

}  // namespace lockstep
