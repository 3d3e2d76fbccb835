#include "text/nearest.h"

#include <algorithm>
#include <cctype>

#include "base/format.h"

namespace lockstep {
namespace {

// No known name is longer, and the time is quadratic.
constexpr std::size_t kLongest = 100;

std::string lower(std::string_view input) {
  std::string result(input);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::optional<std::string_view> nearest(std::string_view name,
                                        const std::vector<std::string_view>& known) {
  if (name.size() > kLongest) return std::nullopt;
  std::optional<std::string_view> best;
  std::size_t least = 0;
  for (std::string_view candidate : known) {
    std::size_t distance = edit_distance(lower(name), lower(candidate));
    std::size_t bound = std::max<std::size_t>(1, std::max(name.size(), candidate.size()) / 3);
    if (distance > bound || distance >= candidate.size()) continue;
    if (!best || distance < least) best = candidate, least = distance;
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& known) {
  auto best = nearest(name, known);
  return best ? format(", did you mean '{}'?", *best) : "";
}

}  // namespace lockstep
