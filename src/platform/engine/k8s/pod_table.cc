#include "platform/engine/k8s/pod_table.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace lockstep::engine {
namespace {

using model::EndBlame;
using model::NodePhase;

// Others deleted the Pod while its agent ran. The agent has then got SIGTERM.
model::Observation taken_back(const PodView& view) {
  return {.phase = NodePhase::gone,
          .reason = format("Pod {} was deleted, and not by Lockstep", view.name),
          .blame = EndBlame::preemption,
          .handle = view.name};
}

}  // namespace

// None: it is no Pod of a node, or its owner was deleted.
std::optional<PodView> PodTable::view_of(const Json& object) const {
  auto view = view_of_pod(object);
  if (view && deleted_owners_.contains(view->owner_uid)) view.reset();
  return view;
}

void PodTable::replace(const Json& items, Moment now) {
  std::set<std::string> uids, owners;
  for (const Json& item : items)
    if (const auto view = view_of_pod(item)) {
      uids.insert(view->uid);
      owners.insert(view->owner_uid);
    }
  std::erase_if(deleted_owners_, [&](const std::string& uid) { return !owners.contains(uid); });
  for (auto entry = pods_.begin(); entry != pods_.end();) {
    const Pod pod = entry->second;
    entry = uids.contains(pod.view.uid) ? std::next(entry) : pods_.erase(entry);
    if (!uids.contains(pod.view.uid)) remove(pod);
  }
  for (const Json& item : items)
    if (auto view = view_of(item)) update(*std::move(view), now);
  std::erase_if(made_, [&](const auto& entry) { return entry.second < lists_begun_; });
}

void PodTable::change(const std::string& type, const Json& object, Moment now) {
  auto view = view_of(object);
  if (!view) return;
  made_.erase(view->node);
  const model::NodeName node = view->node;
  const std::string uid = view->uid;
  update(*std::move(view), now);
  if (type != "DELETED") return;
  const auto found = pods_.find(node);
  if (found == pods_.end() || found->second.view.uid != uid) return;
  const Pod pod = std::move(found->second);
  pods_.erase(found);
  remove(pod);
}

void PodTable::update(PodView view, Moment now) {
  Pod& pod = pods_[view.node];
  if (pod.view.uid != view.uid) pod = Pod{};
  // Its end while it is being deleted.
  const bool ends_now = view.has_ended && !pod.view.uid.empty() && !pod.view.has_ended;
  if (ends_now && view.is_being_deleted && !pod.is_killed) view.seen = taken_back(view);
  if (view.has_ended && pod.view.has_ended) view.seen = pod.view.seen;
  pod.view = std::move(view);
  note_waiting(pod, now);
}

// Its view is as the API server has it.
void PodTable::note_waiting(Pod& pod, Moment now) {
  PodView& view = pod.view;
  if (view.seen.phase != NodePhase::starting) {
    pod.starting_since.reset();
    pod.warning.reset();
  } else if (!pod.starting_since) {
    pod.starting_since = now;
  }
  if (pod.warning) {
    view.is_stuck = true;
    view.stuck_blame = pod.warning->blame;
    view.seen.phase = NodePhase::pending;
    view.seen.reason = pod.warning->reason;
  }
  if (!view.is_stuck)
    pod.stuck_since.reset();
  else if (!pod.stuck_since)
    pod.stuck_since = pod.starting_since.value_or(now);
}

bool PodTable::has_slow_start(Moment now, Duration least) const {
  return std::ranges::any_of(pods_, [&](const auto& entry) {
    const Pod& pod = entry.second;
    return pod.starting_since && now - *pod.starting_since >= least && !pod.given_up;
  });
}

void PodTable::add_warnings(const std::map<std::string, PodWarning>& warnings, Moment now) {
  for (auto& [node, pod] : pods_) {
    const auto found = warnings.find(pod.view.uid);
    if (!pod.starting_since || found == warnings.end()) continue;
    pod.warning = found->second;
    pod.view.seen.phase = NodePhase::starting;
    note_waiting(pod, now);
  }
}

// The object does not exist any more.
void PodTable::remove(const Pod& pod) {
  const PodView& view = pod.view;
  if (pod.given_up)
    ended_[view.node] = *pod.given_up;
  else if (view.has_ended)
    ended_[view.node] = view.seen;
  else if (!pod.is_killed)
    ended_[view.node] = taken_back(view);
  else
    ended_[view.node] = {.phase = NodePhase::gone, .handle = view.name};
}

// The event may come before the answer.
void PodTable::add_made(const model::NodeName& node) {
  if (!knows(node)) made_.emplace(node, lists_begun_);
}

const PodTable::Pod* PodTable::mark_killed(const model::NodeName& node) {
  const auto found = pods_.find(node);
  if (found == pods_.end() || found->second.view.has_ended) return nullptr;
  found->second.is_killed = true;
  return &found->second;
}

const PodTable::Pod* PodTable::give_up(Moment now, Duration limit) {
  for (auto& [node, pod] : pods_) {
    if (!pod.stuck_since || now - *pod.stuck_since < limit || pod.given_up) continue;
    pod.given_up = {.phase = NodePhase::gone,
                    .reason = format("{}, for {}", pod.view.seen.reason, text(limit)),
                    .blame = pod.view.stuck_blame,
                    .handle = pod.view.name};
    pod.is_killed = true;
    return &pod;
  }
  return nullptr;
}

void PodTable::forget_attempt(const model::AttemptName& attempt, const std::string& owner_uid) {
  deleted_owners_.insert(owner_uid);
  std::erase_if(pods_, [&](const auto& entry) { return entry.second.view.owner_uid == owner_uid; });
  const auto is_of_it = [&](const auto& entry) { return entry.first.attempt() == attempt; };
  std::erase_if(ended_, is_of_it);
  std::erase_if(made_, is_of_it);
}

void PodTable::keep_ends_of(const std::set<model::AttemptName>& attempts) {
  std::erase_if(ended_,
                [&](const auto& entry) { return !attempts.contains(entry.first.attempt()); });
}

bool PodTable::knows(const model::NodeName& node) const {
  return pods_.contains(node) || made_.contains(node) || ended_.contains(node);
}

int PodTable::highest_index(const model::AttemptName& attempt) const {
  int highest = -1;
  const auto look_at = [&](const model::NodeName& node) {
    if (node.attempt() == attempt) highest = std::max(highest, node.id.index);
  };
  for (const auto& [node, pod] : pods_) look_at(node);
  for (const auto& [node, list] : made_) look_at(node);
  for (const auto& [node, seen] : ended_) look_at(node);
  return highest;
}

}  // namespace lockstep::engine
