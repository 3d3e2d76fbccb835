// gpt train: the training loop.
#pragma once

#include <lockstep/result.h>

#include "options.h"

namespace gpt {

enum class Outcome {
  finished,
  stopped,  // by SIGTERM, after a step, with a checkpoint of it
};

lockstep::Result<Outcome> train(const TrainOptions& options);

}  // namespace gpt
