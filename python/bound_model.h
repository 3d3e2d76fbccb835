// What Python's class ShardedModel is.
#pragma once

#include <memory>

#include "train/hooked.h"

namespace lockstep {

struct BoundModel {
  std::unique_ptr<HookedModel> hooked;

  Mesh& mesh() { return hooked->model().mesh(); }
};

}  // namespace lockstep
