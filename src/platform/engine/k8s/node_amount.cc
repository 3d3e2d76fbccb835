#include "platform/engine/k8s/node_amount.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace lockstep::engine {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 16> kSuffixes = {
    {{"", 1},
     {"n", 1e-9},
     {"u", 1e-6},
     {"m", 1e-3},
     {"k", 1e3},
     {"M", 1e6},
     {"G", 1e9},
     {"T", 1e12},
     {"P", 1e15},
     {"E", 1e18},
     {"Ki", 1024.0},
     {"Mi", 1024.0 * 1024},
     {"Gi", 1024.0 * 1024 * 1024},
     {"Ti", 1024.0 * 1024 * 1024 * 1024},
     {"Pi", 1024.0 * 1024 * 1024 * 1024 * 1024},
     {"Ei", 1024.0 * 1024 * 1024 * 1024 * 1024 * 1024}}};

}  // namespace

std::optional<double> parse_node_amount(std::string_view quantity) {
  double value = 0;
  const char* const end = quantity.data() + quantity.size();
  const auto [rest, error] = std::from_chars(quantity.data(), end, value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  const auto* const suffix = std::ranges::find(kSuffixes, std::string_view(rest, end),
                                               &std::pair<std::string_view, double>::first);
  if (suffix == kSuffixes.end()) return std::nullopt;
  return value * suffix->second;
}

}  // namespace lockstep::engine
