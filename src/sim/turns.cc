#include "sim/turns.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/format.h"
#include "map/query.h"

namespace lockstep::sim {
namespace {

using Free = std::map<std::string, int>;  // devices by host

// As docs/design/scheduler.md promises: a place is lost to runs up to 20 time-outs younger, more or
// fewer by the project's share.
std::tuple<Time, Time, RunId> turn_of(const Run& run) {
  const Duration counted = run.spec.timeout;
  return {run.queued + 20 * counted * run.share / 100, run.queued, run.id};
}

// Who stands where, of those that wait or start now. The runs of a project share out its places by
// their priorities.
using Places = std::map<RunId, std::size_t>;
Places places_of(const std::vector<Claim>& claims) {
  std::vector<const Run*> runs;
  for (const Claim& claim : claims)
    if (claim.starts || waits_for_devices(*claim.run)) runs.push_back(claim.run);
  std::ranges::sort(runs, {}, [](const Run* run) { return turn_of(*run); });
  std::map<std::string, std::vector<const Run*>> by_project;
  for (const Run* run : runs) by_project[run->id.project].push_back(run);
  for (auto& [project, theirs] : by_project)
    std::ranges::stable_sort(theirs, std::ranges::greater(), &Run::priority);
  std::map<std::string, std::size_t> next;
  Places places;
  for (std::size_t place = 0; place < runs.size(); ++place) {
    const std::string& project = runs[place]->id.project;
    places[by_project[project][next[project]++]->id] = place;
  }
  return places;
}

int hosts_with_room(const Pod& pod, const Free& free, int devices) {
  int count = 0;
  for (const Host* host : hosts(pod)) count += free.at(host->id) >= devices ? 1 : 0;
  return count;
}

// Hosts with room for a node of the gang, and for its remainder, which is smaller.
struct Room {
  int nodes = 0;
  int rests = 0;
  bool holds(const RunSpec& spec) const {
    return nodes >= spec.nodes && (spec.remainder == 0 || rests > spec.nodes);
  }
};

Room room_in(const Pod& pod, const Free& free, const RunSpec& spec) {
  return {hosts_with_room(pod, free, spec.devices), hosts_with_room(pod, free, spec.remainder)};
}

// In one pod; over all of them if no pod is large enough when it is empty.
bool fits(const Map& map, const RunSpec& spec, const Free& free) {
  Free empty;
  for (const Host* host : hosts(map)) empty[host->id] = static_cast<int>(device_count(*host));
  bool in_one = false;
  Room all;
  for (const Pod& pod : map.pods) {
    in_one = in_one || room_in(pod, empty, spec).holds(spec);
    const Room here = room_in(pod, free, spec);
    if (here.holds(spec)) return true;
    all.nodes += here.nodes;
    all.rests += here.rests;
  }
  return !in_one && all.holds(spec);
}

Free free_devices(const Map& map, const std::vector<const Claim*>& holders) {
  Free free;
  for (const Host* host : hosts(map)) free[host->id] = static_cast<int>(device_count(*host));
  for (const Claim* holder : holders)
    for (const Node* node : holder->nodes)
      if (const auto found = free.find(node->host); found != free.end())
        found->second -= static_cast<int>(node->devices.size());
  return free;
}

Time end_of(const Claim* claim) {
  const Duration left = claim->run->spec.timeout - claim->run->charged;
  return claim->attempt->draining.value_or(claim->attempt->created + left);
}

// When the run fits if all the holders end on time; the beginning of time if it does now, nothing
// if it never does.
std::optional<Time> first_fit(const Map& map, const RunSpec& spec,
                              std::vector<const Claim*> holders) {
  std::set<Time> moments{Time{}};
  for (const Claim* holder : holders) moments.insert(end_of(holder));
  for (const Time moment : moments) {
    std::erase_if(holders, [&](const Claim* holder) { return end_of(holder) <= moment; });
    if (fits(map, spec, free_devices(map, holders))) return moment;
  }
  return std::nullopt;
}

const Run* head_of(const Map& map, const std::vector<Claim>& claims, const Places& places) {
  const Run* head = nullptr;
  for (const Claim& claim : claims) {
    const Run& run = *claim.run;
    if (!waits_for_devices(run)) continue;
    if (head && places.at(head->id) < places.at(run.id)) continue;
    if (fits(map, run.spec, free_devices(map, {}))) head = &run;
  }
  return head;
}

}  // namespace

std::optional<std::string> wrong_turn(const Map& map, const std::vector<Claim>& claims) {
  const Places places = places_of(claims);
  const Run* head = head_of(map, claims, places);
  std::vector<const Claim*> holders, passing, rightful;
  for (const Claim& claim : claims) {
    if (!claim.attempt) continue;
    holders.push_back(&claim);
    const bool passes = head && claim.starts && places.at(head->id) < places.at(claim.run->id);
    (passes ? passing : rightful).push_back(&claim);
  }
  if (passing.empty()) return std::nullopt;
  const auto words = [&](std::string_view harm) {
    return format("{} starts before {}, {}", text(passing.front()->run->id), text(head->id), harm);
  };
  const auto before = first_fit(map, head->spec, rightful);
  if (before == Time{}) return words("which stands ahead of it and would fit");
  if (first_fit(map, head->spec, holders) != before) return words("which it delays");
  return std::nullopt;
}

}  // namespace lockstep::sim
