// The checkpoints of a folder, by their names alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct ListedCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path path;
};

// "step-00000100": eight digits, or more where they do not suffice.
std::string checkpoint_name(std::int64_t step);
// The way back; nothing if it is no checkpoint's name.
std::optional<std::int64_t> step_of(std::string_view name);

// The newest first; whether they are whole is not looked at. Empty if there is no such folder.
Result<std::vector<ListedCheckpoint>> list_checkpoints(const std::filesystem::path& folder);

}  // namespace lockstep
