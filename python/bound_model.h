// The objects behind Python's classes ShardedModel and Recovery.
#pragma once

#include <memory>

#include "train/autograd_engine.h"
#include "train/recovery/recovery.h"

namespace lockstep::python {

struct BoundModel {
  std::unique_ptr<train::AutogradEngine> engine;

  train::Mesh& mesh() { return engine->model().mesh(); }
};

struct BoundRecovery {
  std::unique_ptr<train::Recovery> recovery;
};

}  // namespace lockstep::python
