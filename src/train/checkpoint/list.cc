#include "train/checkpoint/list.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/format.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> parse_name(std::string_view name) {
  if (!name.starts_with("step-")) return std::nullopt;
  std::int64_t step = 0;
  const auto digits = name.substr(5);
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (failed != std::errc() || step < 0 || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return format("step-{:08}", step); }

Result<std::vector<ListedCheckpoint>> list_checkpoints(const fs::path& folder) {
  std::vector<ListedCheckpoint> found;
  std::error_code failed;
  fs::directory_iterator entry(folder, failed);
  if (failed == std::errc::no_such_file_or_directory) return found;
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed))
    if (auto step = parse_name(entry->path().filename().string()))
      found.push_back({*step, entry->path()});
  if (failed) return os_error(format("listing {}", folder.string()), failed.value());
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.step > b.step; });
  return found;
}

}  // namespace lockstep
