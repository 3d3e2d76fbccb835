// Copies of the program that runs, for other machines and images.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace lockstep {

// Makes the file and its folder; only its owner may write it, all may run it. A reader of that name
// never finds a part of it.
Result<void> copy_own_program(const std::filesystem::path& file);

// Copies this program to FOLDER/bin/lockstep, and the shared libraries that it has loaded to
// FOLDER/lib, without those of glibc and g++. An installed program looks for libraries there first,
// so the copy runs in images that have none of them. All users may run it.
Result<void> copy_own_installation(const std::filesystem::path& folder);

}  // namespace lockstep
