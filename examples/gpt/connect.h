// The ranks of this run as replicas, from the environment that torchrun and lockstep set.
#pragma once

#include <chrono>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "train/mesh.h"

namespace lockstep::gpt {

// `backend` is "lockstep", or "gloo": PyTorch's Gloo through a TCPStore at MASTER_ADDR:MASTER_PORT,
// for RANK of WORLD_SIZE, which runs everywhere and is there to compare with. Each call makes
// connections of its own; all ranks call it equally often. bound: of the call and every transfer.
Result<Mesh> connect(const std::string& backend, Duration bound = std::chrono::minutes(10));

}  // namespace lockstep::gpt
