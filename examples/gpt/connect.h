// The ranks of this run as replicas, from the environment that torchrun and lockstep set.
#pragma once

#include <string>

#include "base/result.h"
#include "train/mesh.h"

namespace lockstep::gpt {

// `backend` is "lockstep", or "gloo": PyTorch's Gloo through a TCPStore at MASTER_ADDR:MASTER_PORT,
// for RANK of WORLD_SIZE, which runs everywhere and is there to compare with.
Result<Mesh> connect(const std::string& backend);

}  // namespace lockstep::gpt
