#include "train/checkpoint/format/list_checkpoints.h"

#include <algorithm>
#include <charconv>

#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::train {

namespace fs = std::filesystem;

std::string checkpoint_name(std::int64_t step) { return format("step-{:08}", step); }

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with("step-")) return std::nullopt;
  std::int64_t step = 0;
  const auto digits = name.substr(5);
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (failed != std::errc() || step < 0 || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

Result<std::vector<ListedCheckpoint>> list_checkpoints(const fs::path& folder) {
  std::vector<ListedCheckpoint> found;
  const auto present = list_folder(folder);
  if (!present && present.error().code == Code::not_found) return found;
  for (const auto& path : TRY(present))
    if (auto step = step_of(path.filename().string())) found.push_back({*step, path});
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.step > b.step; });
  return found;
}

}  // namespace lockstep::train
