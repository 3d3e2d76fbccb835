#include "map/taints.h"

#include <algorithm>

#include "base/format.h"

namespace lockstep::map {
namespace {

constexpr std::string_view kPrefix = "taint/";

std::string word_of(const Taint& taint) {
  return format("{}{}{}:{}", taint.key, taint.value.empty() ? "" : "=", taint.value, taint.effect);
}

std::vector<Taint> taints_of(const Labels& labels) {
  std::vector<Taint> taints;
  for (const auto& [key, value] : labels) {
    if (!key.starts_with(kPrefix)) continue;
    const auto end = value.find('/');
    taints.push_back({.key = key.substr(kPrefix.size()),
                      .value = end == std::string::npos ? "" : value.substr(end + 1),
                      .effect = value.substr(0, end)});
  }
  return taints;
}

bool fits(std::string_view toleration, const Taint& taint) {
  const auto colon = toleration.rfind(':');
  if (colon != std::string_view::npos && toleration.substr(colon + 1) != taint.effect) return false;
  const std::string_view rest = toleration.substr(0, colon);
  const auto equals = rest.find('=');
  if (rest.substr(0, equals) != taint.key) return false;
  const bool has_value = equals != std::string_view::npos && equals + 1 < rest.size();
  return !has_value || rest.substr(equals + 1) == taint.value;
}

}  // namespace

std::optional<std::pair<std::string, std::string>> taint_label(const Taint& taint) {
  std::pair<std::string, std::string> label = {
      format("{}{}", kPrefix, taint.key),
      format("{}{}{}", taint.effect, taint.value.empty() ? "" : "/", taint.value)};
  if (!check_labels({label})) return std::nullopt;
  return label;
}

bool has_taints(const Labels& labels) {
  const auto first = labels.lower_bound(std::string(kPrefix));
  return first != labels.end() && first->first.starts_with(kPrefix);
}

std::string taints_text(const Labels& labels) {
  std::vector<std::string> words;
  for (const Taint& taint : taints_of(labels)) words.push_back(word_of(taint));
  return joined(words, ", ");
}

bool tolerates(const std::vector<std::string>& tolerations, const Labels& labels) {
  return std::ranges::all_of(taints_of(labels), [&](const Taint& taint) {
    return std::ranges::any_of(tolerations,
                               [&](const std::string& each) { return fits(each, taint); });
  });
}

}  // namespace lockstep::map
