// gpt sample: text from the newest checkpoint.
#pragma once

#include <lockstep/result.h>

#include "options.h"

namespace gpt {

// Prints the prompt and `bytes` more.
lockstep::Result<void> sample(const SampleOptions& options);

}  // namespace gpt
