// Fence: one writer at a time makes checkpoints in a folder.
//
// The file WRITER names the training that writes: the store's generation, the run, the attempt, and
// a random name for this opening. It is written under the folder's lock, and read again under that
// lock before each rename, so that no writer that was replaced makes anything visible.
//
// A claim gives way to a later attempt of the same run, always: the earlier one was taken for dead
// and may only be cut off. To any other writer it gives way if its writer is not alive. On one
// machine a lock on WRITER tells that at once, because the system releases it however the process
// ends. From another machine the file's time tells it: the writer renews it every two seconds, and
// another watches for ten. Reading takes nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "base/units.h"
#include "report/fault/fault.h"
#include "train/checkpoint/format/writer.h"

namespace lockstep {

// How often a writer renews its claim.
inline constexpr Duration kBeat = std::chrono::seconds(2);
// A writer on another machine whose claim is not renewed for so long is dead. Four beats may be
// late, on a host or a file system that is busy, before a living writer is taken for dead.
inline constexpr Duration kSilenceMax = std::chrono::seconds(10);

// Called when this writer may not write and its training therefore ends. superseded: a later
// attempt writes, told once. refused: another run does.
using KeptOut = std::function<void(Fault, const std::string& why)>;

struct FenceOptions {
  Writer writer = {};
  WriterProcess process = WriterProcess::of_this_process();
  KeptOut kept_out = nullptr;
  // For tests.
  Duration beat = kBeat;
  std::function<void(Duration)> pause = nullptr;  // by default, sleeps
};

class Fence {
 public:
  // Claims the folder, which must exist. denied: a later attempt has. already_exists: another
  // writer is alive; the message names it.
  static Result<Fence> claim(const std::filesystem::path& folder, const FenceOptions& options);
  // Nothing where another living process of this attempt, or this process itself, has claimed it:
  // what was opened later may be there to read.
  static Result<std::optional<Fence>> claim_unless_sibling(const std::filesystem::path& folder,
                                                           const FenceOptions& options);

  Fence(Fence&&) noexcept;
  Fence& operator=(Fence&&) noexcept;
  // Releases the claim, unless another has taken it.
  ~Fence();

  const std::string& opening() const;
  std::int64_t attempt() const;
  // denied once another writer has claimed the folder; corrupt if the claim is gone.
  Result<void> check() const;
  // The folder's lock: while it lives, no other claims the folder.
  Result<Fd> lock() const;

 private:
  class Held;
  explicit Fence(std::unique_ptr<Held> held);
  std::unique_ptr<Held> held_;
};

// The writer of the folder if it may be alive and is another than this one: for a warning. From
// another machine it may have ended without a word.
std::optional<std::string> other_writer(const std::filesystem::path& folder,
                                        const FenceOptions& options);

}  // namespace lockstep
