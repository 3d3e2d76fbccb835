// The model's sizes, as a checkpoint's notes keep them.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "model.h"

namespace lockstep::gpt {

std::map<std::string, std::string> notes_of(const ModelOptions& options);
Result<ModelOptions> options_of(const std::map<std::string, std::string>& notes);

}  // namespace lockstep::gpt
