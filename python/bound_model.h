// What Python's classes ShardedModel and Recovery are.
#pragma once

#include <memory>

#include "train/hooked.h"
#include "train/recovery/recovery.h"

namespace lockstep {

struct BoundModel {
  std::unique_ptr<HookedModel> hooked;

  Mesh& mesh() { return hooked->model().mesh(); }
};

struct BoundRecovery {
  std::unique_ptr<Recovery> recovery;
};

}  // namespace lockstep
