#include "platform/engine/k8s/pod_observation.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "platform/engine/k8s/attempt_objects.h"
#include "platform/engine/k8s/json_fields.h"

namespace lockstep::engine {
namespace {

using model::EndBlame;
using model::NodePhase;

constexpr std::size_t kWordsMax = 500;

constexpr std::array<std::string_view, 4> kImageReasons = {"ImagePullBackOff", "ErrImagePull",
                                                           "InvalidImageName", "ErrImageNeverPull"};
constexpr std::array<std::string_view, 4> kStartReasons = {
    "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff"};
// The words of kube-scheduler on volumes of a Pod that waits for nothing that ends.
struct VolumeProblem {
  std::string_view words;
  EndBlame blame;
};
constexpr std::array<VolumeProblem, 3> kVolumeProblems = {
    {{"persistentvolumeclaim \"", EndBlame::refusal},  // it is not found, or is being deleted
     {"unbound immediate PersistentVolumeClaims", EndBlame::engine},
     {"volume node affinity conflict", EndBlame::host}}};
// The kubelet, an eviction or the end of the machine took the devices back.
constexpr std::array<std::string_view, 6> kTakenBack = {"Evicted",      "Preempting", "Shutdown",
                                                        "NodeShutdown", "Terminated", "Preempted"};
// The kubelet refused a Pod that kube-scheduler had sent.
constexpr std::array<std::string_view, 3> kRefused = {"UnexpectedAdmissionError", "NodeAffinity",
                                                      "NodeLost"};

template <std::size_t n>
bool has_word(const std::array<std::string_view, n>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

struct PodEnd {
  std::string reason{};
  EndBlame blame = EndBlame::unknown;
  bool out_of_memory = false;
};

// "REASON: message".
std::string in_words(const std::string& reason, const std::string& message) {
  const std::string bounded = message.substr(0, kWordsMax);
  if (reason.empty() || bounded.empty()) return reason + bounded;
  return format("{}: {}", reason, bounded);
}

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

bool has_condition(const Json& pod, std::string_view type) {
  return std::ranges::any_of(items_of(pod, {"status", "conditions"}), [&](const Json& condition) {
    return text_of(condition, {"type"}) == type && text_of(condition, {"status"}) == "True";
  });
}

// The state of each container with its status, those that copy the agent first.
template <class Visit>
void visit_containers(const Json& pod, Visit visit) {
  for (const Json& status : items_of(pod, {"status", "initContainerStatuses"})) visit(status, true);
  for (const Json& status : items_of(pod, {"status", "containerStatuses"})) visit(status, false);
}

int exit_code_of(const Json& terminated) {
  const Json& code = field_of(terminated, {"exitCode"});
  return code.is_number_integer() ? code.get<int>() : 0;
}

PodEnd end_of_container(const Json& status, bool copies_agent) {
  const Json& terminated = field_of(status, {"state", "terminated"});
  const int code = exit_code_of(terminated);
  if (!terminated.is_object() || code == 0) return {};
  const std::string reason = text_of(terminated, {"reason"});
  const std::string message = text_of(terminated, {"message"});
  const std::string image = text_of(status, {"image"});
  if (reason == "OOMKilled")
    return {
        "the container was OOMKilled: it used more memory than its limit; ask for more with "
        "`needs: memory`, or use less",
        EndBlame::unknown, true};
  if (copies_agent)
    return {in_words(format("image {} could not copy the agent into the Pod ({}, exit code {})",
                            image, reason, code),
                     message),
            EndBlame::engine};
  if (reason != "Error" && reason != "Completed")
    return {in_words(format("the agent cannot start in image {} ({})", image, reason), message),
            EndBlame::engine};
  // The message is the end of the agent's log: its last line says why.
  return {in_words(format("the agent ended with exit code {}", code), last_line(message))};
}

PodEnd end_of_pod(const Json& pod) {
  const std::string reason = text_of(pod, {"status", "reason"});
  const std::string words =
      in_words("Kubernetes ended the Pod (" + reason + ")", text_of(pod, {"status", "message"}));
  if (has_word(kTakenBack, reason)) return {words, EndBlame::preemption};
  if (has_condition(pod, "DisruptionTarget"))
    return {"Kubernetes ended the Pod for others, or to empty its Node", EndBlame::preemption};
  if (has_word(kRefused, reason) || reason.starts_with("OutOf")) return {words, EndBlame::host};
  if (reason == "DeadlineExceeded") return {words};
  PodEnd end;
  visit_containers(pod, [&](const Json& status, bool copies_agent) {
    if (end.reason.empty()) end = end_of_container(status, copies_agent);
  });
  return end;
}

// kube-scheduler has not placed it. Empty: it has.
std::string why_unscheduled(const Json& pod) {
  for (const Json& condition : items_of(pod, {"status", "conditions"}))
    if (text_of(condition, {"type"}) == "PodScheduled" && text_of(condition, {"status"}) == "False")
      return in_words(text_of(condition, {"reason"}), text_of(condition, {"message"}));
  return text_of(pod, {"spec", "nodeName"}).empty() ? "kube-scheduler has not placed the Pod" : "";
}

void observe_pending(const Json& pod, PodView& view) {
  if (std::string why = why_unscheduled(pod); !why.empty()) {
    view.seen.phase = NodePhase::pending;
    for (const VolumeProblem& problem : kVolumeProblems)
      if (!view.is_stuck && why.find(problem.words) != std::string::npos) {
        view.is_stuck = true;
        view.stuck_blame = problem.blame;
      }
    view.seen.reason = std::move(why);
    return;
  }
  view.seen.phase = NodePhase::starting;
  visit_containers(pod, [&](const Json& status, bool) {
    const Json& waiting = field_of(status, {"state", "waiting"});
    const std::string reason = text_of(waiting, {"reason"});
    const bool is_image = has_word(kImageReasons, reason);
    if (view.is_stuck || (!is_image && !has_word(kStartReasons, reason))) return;
    view.is_stuck = true;
    view.stuck_blame = is_image ? EndBlame::refusal : EndBlame::engine;
    view.seen.phase = NodePhase::pending;
    view.seen.reason = in_words(
        is_image ? format("image {} cannot be pulled ({})", text_of(status, {"image"}), reason)
                 : reason,
        text_of(waiting, {"message"}));
  });
}

// The Node to which the Pod is pinned.
std::string wanted_host(const Json& pod) {
  for (const Json& term :
       items_of(pod, {"spec", "affinity", "nodeAffinity",
                      "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"}))
    for (const Json& field : items_of(term, {"matchFields"}))
      for (const Json& value : items_of(field, {"values"}))
        if (value.is_string()) return value.get<std::string>();
  return "";
}

}  // namespace

std::optional<PodView> view_of_pod(const Json& pod) {
  const auto node = node_of_pod(pod);
  if (!node) return std::nullopt;
  PodView view{.node = *node,
               .name = text_of(pod, {"metadata", "name"}),
               .uid = text_of(pod, {"metadata", "uid"}),
               .attempt_object = text_of(pod, {"metadata", "labels", kAttemptLabel}),
               .owner_uid = {},
               .host = text_of(pod, {"spec", "nodeName"})};
  for (const Json& owner : items_of(pod, {"metadata", "ownerReferences"}))
    view.owner_uid = text_of(owner, {"uid"});
  if (view.host.empty()) view.host = wanted_host(pod);
  view.seen.handle = view.name;
  const std::string phase = text_of(pod, {"status", "phase"});
  view.is_being_deleted = !text_of(pod, {"metadata", "deletionTimestamp"}).empty();
  view.has_ended = phase == "Succeeded" || phase == "Failed";
  if (view.has_ended) {
    PodEnd end = phase == "Failed" ? end_of_pod(pod) : PodEnd();
    view.seen.phase = NodePhase::gone;
    view.seen.reason = std::move(end.reason);
    view.seen.blame = end.blame;
    view.seen.out_of_memory = end.out_of_memory;
  } else if (phase == "Pending" && !view.is_being_deleted) {
    observe_pending(pod, view);
  }
  return view;
}

}  // namespace lockstep::engine
