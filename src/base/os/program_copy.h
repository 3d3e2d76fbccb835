// Copies of the program that runs.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace lockstep {

// Makes the file and its folder; only its owner may write it, all may run it. A reader of that name
// never finds a part of it.
Result<void> copy_own_program(const std::filesystem::path& file);

}  // namespace lockstep
