// Changes an argument of a program by its name, as `lockstep fork --set lr=3e-4` does.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep::cli {

enum class ArgumentChange { replaced, added };

// Sets the value of KEY in the command by "KEY=VALUE". Recognized are `--KEY VALUE`, `--KEY=VALUE`,
// and Hydra's `KEY=VALUE`, `+KEY=VALUE` and `++KEY=VALUE`. Without any of them, `--KEY=VALUE` is
// added at the end. Code::invalid: the setting has no KEY, or the command has KEY more than once.
Result<ArgumentChange> set_argument(const std::string& setting, std::vector<std::string>& command);

}  // namespace lockstep::cli
