// gpt train: the training loop.
#pragma once

#include "base/result.h"
#include "options.h"

namespace lockstep::gpt {

enum class Outcome {
  finished,
  stopped,  // by SIGTERM, after a step, with a checkpoint of it
};

Result<Outcome> train(const TrainOptions& options);

}  // namespace lockstep::gpt
