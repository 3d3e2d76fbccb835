#include "platform/k8s/toleration.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "platform/k8s/names.h"

namespace lockstep::k8s {
namespace {

constexpr std::array<std::string_view, 3> kEffects = {"NoSchedule", "PreferNoSchedule",
                                                      "NoExecute"};

}  // namespace

Result<Toleration> parse_toleration(std::string_view words) {
  Toleration toleration;
  const std::size_t colon = words.rfind(':');
  if (colon != std::string_view::npos) {
    toleration.effect = words.substr(colon + 1);
    if (std::ranges::find(kEffects, toleration.effect) == kEffects.end())
      return Error{Code::invalid, format("'{}': the effect of a taint is one of {}",
                                         toleration.effect, joined(kEffects, ", "))};
  }
  const std::string_view taint = words.substr(0, colon);
  const std::size_t equals = taint.find('=');
  toleration.key = taint.substr(0, equals);
  if (equals != std::string_view::npos) toleration.value = taint.substr(equals + 1);
  TRY(check_key(toleration.key));
  TRY(check_label_value(toleration.value));
  return toleration;
}

Json toleration_json(const Toleration& toleration) {
  Json json = {{"key", toleration.key},
               {"operator", toleration.value.empty() ? "Exists" : "Equal"}};
  if (!toleration.value.empty()) json["value"] = toleration.value;
  if (!toleration.effect.empty()) json["effect"] = toleration.effect;
  return json;
}

}  // namespace lockstep::k8s
