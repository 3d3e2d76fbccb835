// The ranks of this run as replicas, from the environment that torchrun and lockstep set.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "train/group/mesh.h"
#include "train/recovery/recovery.h"

namespace lockstep::gpt {

// `backend` is "lockstep", or "gloo": PyTorch's Gloo through a TCPStore at MASTER_ADDR:MASTER_PORT,
// for RANK of WORLD_SIZE, which runs everywhere and serves as a reference.
class Ranks {
 public:
  // Gloo does not support recovery.
  static Result<Ranks> start(const std::string& backend, train::RecoveryOptions options);

  // Each call makes new connections; all ranks call them equally often.
  Result<train::Mesh> mesh();
  // For communication outside of the training. bound: of the call and every transfer.
  Result<train::Comm> new_group(Duration bound);

  train::Recovery& recovery() { return *recovery_; }

 private:
  bool gloo_ = false;
  std::unique_ptr<train::Recovery> recovery_;
};

}  // namespace lockstep::gpt
