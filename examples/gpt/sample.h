// gpt sample: text from the newest checkpoint.
#pragma once

#include "base/result.h"
#include "options.h"

namespace lockstep::gpt {

// Prints the prompt and `bytes` more.
Result<void> sample(const SampleOptions& options);

}  // namespace lockstep::gpt
