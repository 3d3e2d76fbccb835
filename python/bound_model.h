// The objects behind Python's classes ShardedModel and Recovery.
#pragma once

#include <memory>

#include "train/autograd_engine.h"
#include "train/recovery/recovery.h"

namespace lockstep {

struct BoundModel {
  std::unique_ptr<AutogradEngine> engine;

  Mesh& mesh() { return engine->model().mesh(); }
};

struct BoundRecovery {
  std::unique_ptr<Recovery> recovery;
};

}  // namespace lockstep
