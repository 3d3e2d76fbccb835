// The main loop of a server's rank.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "train/optimizer/optimizer.h"
#include "train/shard.h"

namespace lockstep::train {

// Accepts workers from now on. Collective over the servers, whose first steps must be equal.
Result<void> start_serving(ShardedModel& model, std::int64_t first_step);

// Applies updates until all workers have left, or on_update() returns an error; returns the number
// of updates since the training's first step. first_step: updates that model and optimizer have,
// from a checkpoint. on_update(step) is called after each, with their number; it may save. At the
// end each server's module has all parameters. Collective over the servers, once for a model.
Result<std::int64_t> serve_parameters(
    ShardedModel& model, Optimizer& optimizer, std::int64_t first_step = 0,
    const std::function<Result<void>(std::int64_t step)>& on_update = {});

}  // namespace lockstep::train
