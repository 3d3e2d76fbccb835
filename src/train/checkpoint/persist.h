// Persist: the background thread's work on a snapshot.
//
// Every rank writes its file, from the beginning on as far as it is copied, and makes it durable.
// Then the ranks exchange their outcomes and their files' checksums. Then rank 0 writes the
// manifest, renames the folder and broadcasts the outcome. So a checkpoint is visible only when
// every byte of it is durable, all ranks return the same outcome, and a rank that fails at any
// point blocks no other rank. If each host has a folder of its own, the keepers of the other
// folders make the checkpoint visible there before rank 0 does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "train/checkpoint/format/manifest.h"
#include "train/checkpoint/format/writer/fence.h"
#include "train/checkpoint/host_folders.h"
#include "train/checkpoint/snapshot.h"
#include "train/group/comm.h"

namespace lockstep::train {

struct PersistTask {
  std::filesystem::path folder;
  const HostFolders& hosts;
  std::string claim_id;          // of the claim
  const Fence* fence = nullptr;  // on the keeper of a folder
  int keep = 1;
  std::function<void(std::int64_t step, const std::filesystem::path& path)> on_saved;
  Manifest manifest;         // all but the files
  const Snapshot& snapshot;  // of this rank's file
  // Waits until the snapshot is complete; an error makes the save fail on every rank.
  std::function<Result<void>()> wait_for_copy;
};

// `begun`: an error if the snapshot could not be started.
Result<void> persist(const PersistTask& task, const Result<void>& begun, Comm& group);

}  // namespace lockstep::train
