#include "platform/core/model/pod_request.h"

#include <utility>

#include "base/format.h"
#include "platform/k8s/names.h"
#include "platform/k8s/toleration.h"
#include "platform/k8s/volume.h"

namespace lockstep::model {
namespace {

constexpr std::size_t kPodWordsMax = 64;
constexpr int kPodResourceMax = 1'000'000;

template <class Words, class Check>
Result<void> check_each(std::string_view field, const Words& words, Check check) {
  if (words.size() > kPodWordsMax)
    return Error{Code::invalid, format("{}: must be at most {}", field, kPodWordsMax)};
  for (const auto& word : words)
    if (auto checked = check(word); !checked)
      return std::move(checked).error().with_context(std::string(field));
  return {};
}

Result<void> check_name_of(std::string_view field, const std::optional<std::string>& name) {
  return check_each(field, name ? std::vector{*name} : std::vector<std::string>(),
                    k8s::check_object_name);
}

}  // namespace

Result<void> check(const PodRequest& request) {
  TRY(check_name_of("service_account", request.service_account));
  TRY(check_name_of("priority_class", request.priority_class));
  TRY(check_each("image_pull_secrets", request.image_pull_secrets, k8s::check_object_name));
  TRY(check_each("volumes", request.volumes, k8s::parse_volume));
  TRY(check_each("tolerations", request.tolerations, k8s::parse_toleration));
  TRY(check_each("node_selector", request.node_selector, [](const auto& label) -> Result<void> {
    TRY(k8s::check_key(label.first));
    return k8s::check_label_value(label.second);
  }));
  TRY(check_each("resources", request.resources, [](const auto& resource) -> Result<void> {
    TRY(k8s::check_key(resource.first));
    if (resource.second >= 0 && resource.second <= kPodResourceMax) return {};
    return Error{Code::invalid, format("{} must be 0 to {}, got {}", resource.first,
                                       kPodResourceMax, resource.second)};
  }));
  if (!request.shared_memory) return {};
  if (auto size = k8s::parse_quantity(*request.shared_memory); !size)
    return std::move(size).error().with_context("shared_memory");
  return {};
}

}  // namespace lockstep::model
