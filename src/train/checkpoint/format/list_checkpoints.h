// The checkpoints of a folder, by their names alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::train {

struct ListedCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path path;
};

// "step-00000100": at least eight digits.
std::string checkpoint_name(std::int64_t step);
// The step of a checkpoint's name; nothing if it is no such name.
std::optional<std::int64_t> step_of(std::string_view name);

// The newest first; does not check that they are intact. Empty if there is no such folder.
Result<std::vector<ListedCheckpoint>> list_checkpoints(const std::filesystem::path& folder);

}  // namespace lockstep::train
