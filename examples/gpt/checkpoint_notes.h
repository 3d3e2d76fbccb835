// The model's sizes, as a checkpoint's notes keep them.
#pragma once

#include <map>
#include <string>

#include <lockstep/result.h>

#include "model.h"

namespace gpt {

std::map<std::string, std::string> notes_of(const ModelOptions& options);
lockstep::Result<ModelOptions> options_of(const std::map<std::string, std::string>& notes);

}  // namespace gpt
