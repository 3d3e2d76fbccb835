#include "platform/engine/k8s/pod_warning.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/format.h"
#include "platform/engine/k8s/json_fields.h"

namespace lockstep::engine {
namespace {

constexpr std::size_t kWarningMax = 500;
constexpr std::array<std::string_view, 4> kWarningReasons = {
    "FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox"};
// The kubelet's summary of volumes that other events name.
constexpr std::string_view kMountSummary = "Unable to attach or mount volumes";
// A Secret, a ConfigMap or one of their keys: the next attempt would wait for it, too.
constexpr std::array<std::string_view, 2> kMissing = {"not found", "non-existent"};

bool contains(std::string_view words, std::string_view part) {
  return words.find(part) != std::string_view::npos;
}

// When it was last seen, as text that can be compared.
std::string moment_of(const Json& event) {
  std::string moment = text_of(event, {"series", "lastObservedTime"});
  if (moment.empty()) moment = text_of(event, {"lastTimestamp"});
  return moment.empty() ? text_of(event, {"eventTime"}) : moment;
}

}  // namespace

std::map<std::string, PodWarning> warnings_of_events(const Json& events) {
  using Rank = std::tuple<bool, std::string>;  // names a cause, moment
  std::map<std::string, std::pair<Rank, PodWarning>> best;
  for (const Json& event : events) {
    const std::string reason = text_of(event, {"reason"});
    if (std::ranges::find(kWarningReasons, reason) == kWarningReasons.end()) continue;
    const std::string message = text_of(event, {"message"}).substr(0, kWarningMax);
    const bool is_missing = std::ranges::any_of(
        kMissing, [&](std::string_view words) { return contains(message, words); });
    const Rank rank{!message.starts_with(kMountSummary), moment_of(event)};
    auto& [found, warning] = best[text_of(event, {"involvedObject", "uid"})];
    if (!warning.reason.empty() && rank < found) continue;
    found = rank;
    warning = {.reason = format("{}: {}", reason, message),
               .blame = is_missing ? model::EndBlame::refusal : model::EndBlame::engine};
  }
  std::map<std::string, PodWarning> warnings;
  for (auto& [uid, entry] : best) warnings.emplace(uid, std::move(entry.second));
  return warnings;
}

}  // namespace lockstep::engine
