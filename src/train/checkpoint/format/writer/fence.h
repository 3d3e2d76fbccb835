// Fence: one writer at a time makes checkpoints in a folder.
//
// The file WRITER identifies the training that writes: the store's generation, the run, the
// attempt, and a random id for this claim. It is written under the folder's lock, and read again
// under that lock before each rename, so that no writer that was replaced makes anything visible.
//
// A claim always yields to a later attempt of the same run: the earlier attempt was considered dead
// and may only be unreachable. It yields to any other writer if its own writer is not alive. On one
// machine a lock on WRITER shows that at once, because the system releases it however the process
// ends. From another machine the file's time shows it: the writer renews it every two seconds, and
// the other machine watches for ten. Readers need no claim.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/os/fd.h"
#include "base/result.h"
#include "base/units.h"
#include "report/fault/fault.h"
#include "train/checkpoint/format/writer/writer.h"

namespace lockstep::train {

// How often a writer renews its claim.
inline constexpr Duration kHeartbeatInterval = std::chrono::seconds(2);
// A writer on another machine whose claim is not renewed for this long is dead. Four heartbeats may
// be late, on a busy host or file system, before a living writer is considered dead.
inline constexpr Duration kHeartbeatTimeout = std::chrono::seconds(10);

// Called when this writer may not write and its training therefore ends. superseded: a later
// attempt writes, reported once. refused: another run writes.
using WriterRejected = std::function<void(report::Fault, const std::string& why)>;

struct FenceOptions {
  Writer writer = {};
  WriterProcess process = WriterProcess::of_this_process();
  WriterRejected on_rejected = nullptr;
  // For tests.
  Duration heartbeat_interval = kHeartbeatInterval;
  std::function<void(Duration)> sleep = nullptr;  // by default, this_thread's sleep
};

class Fence {
 public:
  // Claims the folder, which must exist. denied: a later attempt has. already_exists: another
  // writer is alive; the message names it.
  static Result<Fence> claim(const std::filesystem::path& folder, const FenceOptions& options);
  // Nothing if another living process of this attempt, or this process itself, has claimed it: a
  // checkpointer that is opened later may only read.
  static Result<std::optional<Fence>> claim_unless_sibling(const std::filesystem::path& folder,
                                                           const FenceOptions& options);

  Fence(Fence&&) noexcept;
  Fence& operator=(Fence&&) noexcept;
  // Releases the claim, unless another has taken it.
  ~Fence();

  const std::string& claim_id() const;
  std::int64_t attempt() const;
  // denied once another writer has claimed the folder; corrupt if the claim is gone.
  Result<void> check() const;
  // The folder's lock: while the descriptor is open, no other writer claims the folder.
  Result<Fd> lock() const;

 private:
  class HeldClaim;
  explicit Fence(std::unique_ptr<HeldClaim> held);
  std::unique_ptr<HeldClaim> claim_;
};

// The folder's writer, if it may be alive and is not this one: for a warning. A writer on another
// machine may have ended without a record.
std::optional<std::string> other_writer(const std::filesystem::path& folder,
                                        const FenceOptions& options);

}  // namespace lockstep::train
