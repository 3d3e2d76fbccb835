// The ranks of this run as replicas, from the environment that torchrun and lockstep set.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "train/mesh.h"
#include "train/recovery/recovery.h"

namespace lockstep::gpt {

// `backend` is "lockstep", or "gloo": PyTorch's Gloo through a TCPStore at MASTER_ADDR:MASTER_PORT,
// for RANK of WORLD_SIZE, which runs everywhere and is there to compare with.
class Ranks {
 public:
  // Over Gloo no death is recovered from.
  static Result<Ranks> start(const std::string& backend, RecoveryOptions options);

  // Each call makes connections of its own; all ranks call them equally often.
  Result<Mesh> mesh();
  // For what is said beside the training. bound: of the call and every transfer.
  Result<Comm> apart(Duration bound);

  Recovery& recovery() { return *recovery_; }

 private:
  bool gloo_ = false;
  std::unique_ptr<Recovery> recovery_;
};

}  // namespace lockstep::gpt
