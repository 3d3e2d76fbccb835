#include "sim/turns.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/format.h"

namespace lockstep::sim {
namespace {

// As docs/design/scheduler.md promises: a place is lost to runs up to 20 time-outs younger, more or
// fewer by the project's share.
constexpr int kAging = 20;
// Of all devices, for debug runs that stand ahead of everybody.
constexpr int kLanePercent = 10;
constexpr int kLane = 0, kOrdinary = 1, kPreemptible = 2;

Time key_of(const Run& run) { return run.queued + kAging * run.spec.timeout * run.share / 100; }

bool is_debug(const Run& run) { return run.spec.run_class == RunClass::debug; }

bool is_preemptible(const Run& run) { return run.spec.run_class == RunClass::preemptible; }

bool takes_nobody(HostState state) {
  return state == HostState::closed || state == HostState::drained;
}

Duration time_left(const Run& run) { return run.spec.timeout - run.charged; }

Time end_of(const Claim& claim) {
  return claim.attempt->draining.value_or(claim.attempt->created + time_left(*claim.run));
}

bool wants_a_place(const Claim& claim) {
  return (claim.starts && !claim.moves) || waits_for_devices(*claim.run);
}

bool leaves(const Claim& claim) { return claim.attempt && claim.attempt->draining; }

// Where devices were kept for it.
bool is_where_it_moves(const Attempt& former, const std::vector<const Node*>& nodes) {
  return former.cause == Cause::moved && !nodes.empty() &&
         std::ranges::equal(former.moves_to, nodes, {}, &Slice::host, &Node::host);
}

Claim claim_of(const Rows& rows, const State& durable, const RunId& id) {
  Claim claim{rows.find(id)};
  const AttemptId newest{id, claim.run->epoch};
  const Attempt* attempt = rows.find(newest);
  if (!attempt || attempt->state == AttemptState::ended) return claim;
  claim.attempt = attempt;
  claim.starts = !durable.attempts.contains(newest);
  for (int index = 0; index < node_count(claim.run->spec); ++index)
    if (const Node* node = rows.find(NodeId{newest, index})) claim.nodes.push_back(node);
  const Attempt* former = rows.find(AttemptId{id, claim.run->epoch - 1});
  claim.moves = claim.starts && former && is_where_it_moves(*former, claim.nodes);
  return claim;
}

// Which of the two limits concern a run.
bool counts_to(const LimitId& limit, const Run& run) {
  return limit.name == (limit.scope == LimitScope::project ? run.spec.project : run.origin.user);
}

// Of the limits that would be passed if the run held devices beside these, or does so among them.
const LimitId* passed_limit(const Standing& standing, const std::vector<const Claim*>& holders,
                            const Run& run) {
  for (const auto& [limit, most] : standing.limits) {
    if (!counts_to(limit, run)) continue;
    int held = rank_count(run.spec);
    for (const Claim* holder : holders)
      if (holder->run != &run && counts_to(limit, *holder->run))
        held += rank_count(holder->run->spec);
    if (held > most) return &limit;
  }
  return nullptr;
}

// For the head itself, or because its host is drained.
bool begins_to_move(const Standing& before, const Claim& claim) {
  const bool moves = leaves(claim) && claim.attempt->cause == Cause::moved;
  const auto was = std::ranges::find(before.claims, claim.run->id,
                                     [](const Claim& other) { return other.run->id; });
  return moves && was != before.claims.end() && !leaves(*was);
}

std::vector<const Claim*> holders_of(const Standing& standing) {
  std::vector<const Claim*> holders;
  for (const Claim& claim : standing.claims)
    if (claim.attempt) holders.push_back(&claim);
  return holders;
}

}  // namespace

Standing standing_of(const State& durable, const Commit& commit) {
  const Rows rows(durable, commit);
  Standing standing{.hosts = rows.hosts(), .limits = rows.limits()};
  for (const RunId& id : rows.open()) standing.claims.push_back(claim_of(rows, durable, id));
  return standing;
}

// --- The order ---

// Debug runs that stand ahead of everybody: who starts while the lane has room for it, and who
// waits though it would have.
std::set<RunId> Turns::in_lane(const Standing& standing) const {
  int held = 0, starting = 0;
  std::vector<const Run*> starts;
  for (const Claim& claim : standing.claims) {
    if (!is_debug(*claim.run) || !claim.attempt) continue;
    const bool stood = claim.starts && !claim.moves;
    (stood ? starting : held) += rank_count(claim.run->spec);
    if (stood) starts.push_back(claim.run);
    if (!claim.attempt->moves_to.empty()) held += rank_count(claim.run->spec);
  }
  const auto has_room = [&](int taken, const Run& run) {
    return (taken + rank_count(run.spec)) * 100 <= ground_.device_count() * kLanePercent;
  };
  std::set<RunId> lane;
  for (const Claim& claim : standing.claims)
    if (is_debug(*claim.run) && !claim.attempt && has_room(held + starting, *claim.run))
      lane.insert(claim.run->id);
  std::ranges::sort(starts, {}, [](const Run* run) { return std::pair(key_of(*run), run->id); });
  for (const Run* run : starts) {
    if (!has_room(held, *run)) continue;
    lane.insert(run->id);
    held += rank_count(run->spec);
  }
  return lane;
}

// A run stands behind those of its project with a higher priority, at the latest of their keys.
Turns::Places Turns::places_of(const Standing& standing) const {
  const std::set<RunId> lane = in_lane(standing);
  Places places;
  for (const Claim& claim : standing.claims) {
    if (!wants_a_place(claim)) continue;
    const Run& run = *claim.run;
    Time key = key_of(run);
    // Those with a higher priority may have started just before it.
    for (const Claim& other : standing.claims)
      if (wants_a_place(other) && !(claim.starts && other.starts) &&
          other.run->spec.project == run.spec.project &&
          other.run->spec.run_class == run.spec.run_class && other.run->priority > run.priority)
        key = std::max(key, key_of(*other.run));
    const int rank = lane.contains(run.id) ? kLane : is_preemptible(run) ? kPreemptible : kOrdinary;
    const int late = is_debug(run) ? 1 : 0;
    places.emplace(run.id, Place(rank, key, late, -run.priority, key_of(run), run.queued, run.id));
  }
  return places;
}

std::vector<RunId> Turns::order(const Standing& standing) const {
  const Places places = places_of(standing);
  std::vector<RunId> waiting;
  for (const Claim& claim : standing.claims)
    if (waits_for_devices(*claim.run)) waiting.push_back(claim.run->id);
  std::ranges::sort(waiting, {}, [&](const RunId& id) { return places.at(id); });
  return waiting;
}

// --- Devices ---

// Who is moved holds two places, the second until it would end there.
std::vector<Turns::Hold> Turns::holds_of(const Holders& holders) {
  std::vector<Hold> holds;
  for (const Claim* holder : holders) {
    const auto& moves_to = holder->attempt->moves_to;
    Hold here{holder, end_of(*holder), moves_to.empty()};
    for (const Node* node : holder->nodes)
      here.devices.emplace_back(node->host, static_cast<int>(node->devices.size()));
    holds.push_back(std::move(here));
    if (moves_to.empty()) continue;
    Hold there{holder, end_of(*holder) + time_left(*holder->run), true};
    for (const Slice& slice : moves_to)
      there.devices.emplace_back(slice.host, static_cast<int>(slice.devices.size()));
    holds.push_back(std::move(there));
  }
  return holds;
}

void Turns::give(const Standing& standing, const Hold& hold, Ground::Free& free, int sign) const {
  for (const auto& [name, devices] : hold.devices) {
    const auto host = ground_.find(name);
    const auto state = standing.hosts.find(name);
    const bool closed = state != standing.hosts.end() && takes_nobody(state->second);
    if (host && !closed) free[*host] += sign * devices;
  }
}

Ground::Free Turns::free_of(const Standing& standing, const Holders& holders) const {
  Ground::Free free = ground_.all();
  for (const auto& [name, state] : standing.hosts)
    if (const auto host = ground_.find(name); host && takes_nobody(state)) free[*host] = 0;
  for (const Hold& hold : holds_of(holders)) give(standing, hold, free, -1);
  return free;
}

// A gang that fits only with closed hosts blocks nobody.
bool Turns::can_be_placed(const Standing& standing, const RunSpec& spec) const {
  return ground_.fits(spec, free_of(standing, {}));
}

// When the run fits, and no limit keeps it, if all the holders end on time; the beginning of time
// if that is now, nothing if it never is.
std::optional<Time> Turns::first_fit(const Standing& standing, const Run& run,
                                     Holders holders) const {
  Ground::Free free = free_of(standing, holders);
  const auto fits = [&] {
    return ground_.fits(run.spec, free) && !passed_limit(standing, holders, run);
  };
  if (fits()) return Time{};
  std::vector<Hold> holds = holds_of(holders);
  std::ranges::sort(holds, std::greater(), &Hold::end);
  while (!holds.empty()) {
    const Time moment = holds.back().end;
    for (; !holds.empty() && holds.back().end == moment; holds.pop_back()) {
      give(standing, holds.back(), free, 1);
      if (holds.back().is_last) std::erase(holders, holds.back().claim);
    }
    if (fits()) return moment;
  }
  return std::nullopt;
}

bool Turns::passes(const Places& places, const Run& head, const Claim& claim) {
  return claim.starts && !claim.moves && places.at(head.id) < places.at(claim.run->id);
}

// Whose limit is reached by those who hold devices, or started ahead of it, blocks nobody.
const Run* Turns::first_waiting(const Standing& standing, const Places& places) const {
  const Run* first = nullptr;
  for (const Claim& claim : standing.claims) {
    const Run& run = *claim.run;
    if (!waits_for_devices(run)) continue;
    if (first && places.at(first->id) < places.at(run.id)) continue;
    Holders ahead = holders_of(standing);
    std::erase_if(ahead, [&](const Claim* holder) { return passes(places, run, *holder); });
    if (passed_limit(standing, ahead, run) || !can_be_placed(standing, run.spec)) continue;
    first = &run;
  }
  return first;
}

std::optional<Turns::Head> Turns::head(const Standing& standing) const {
  const Run* first = first_waiting(standing, places_of(standing));
  if (!first) return std::nullopt;
  const auto start = first_fit(standing, *first, holders_of(standing));
  return Head{first, start.value_or(Time::max())};
}

// --- Those who start ---

std::optional<std::string> Turns::wrong_start(const Standing& standing) const {
  for (const Claim& claim : standing.claims) {
    if (!claim.starts || claim.moves) continue;
    if (auto wrong = wrong_place(standing, claim)) return wrong;
    if (const LimitId* limit = passed_limit(standing, holders_of(standing), *claim.run))
      return format("{} starts, and the {} holds more than it may", text(claim.run->id),
                    text(*limit));
  }
  return wrong_turn(standing);
}

// On hosts that take somebody, on avoided ones only if it would fit nowhere else, in one pod.
std::optional<std::string> Turns::wrong_place(const Standing& standing, const Claim& claim) const {
  const auto words = [&](const std::string& what) {
    return format("{} starts {}", text(claim.run->id), what);
  };
  std::set<int> pods;
  const std::string* avoided = nullptr;
  for (const Node* node : claim.nodes) {
    if (const auto host = ground_.find(node->host)) pods.insert(ground_.pod_of(*host));
    const auto state = standing.hosts.find(node->host);
    if (state == standing.hosts.end()) continue;
    if (takes_nobody(state->second))
      return words(format("on {}, which is {}", node->host, text(state->second)));
    avoided = &node->host;
  }
  if (pods.size() > 1 && ground_.stays_in_one_pod(claim.run->spec))
    return words("over several pods, and one of them is large enough");
  if (!avoided) return std::nullopt;
  Holders others = holders_of(standing);
  std::erase(others, &claim);
  Ground::Free free = free_of(standing, others);
  for (const auto& [name, state] : standing.hosts)
    if (const auto host = ground_.find(name)) free[*host] = 0;
  if (!ground_.fits(claim.run->spec, free)) return std::nullopt;
  return words(format("on {}, which is avoided, though others have room", *avoided));
}

std::optional<std::string> Turns::wrong_turn(const Standing& standing) const {
  const Places places = places_of(standing);
  const Run* head = first_waiting(standing, places);
  if (!head) return std::nullopt;
  const Holders holders = holders_of(standing);
  // Who is preemptible passes any head that is not, since it can have him evicted, and with its
  // expected start others pass too; but not while somebody leaves for it.
  const auto passes_any = [](const Claim* holder) {
    return holder->starts && is_preemptible(*holder->run);
  };
  if (!is_preemptible(*head) && std::ranges::none_of(standing.claims, leaves) &&
      std::ranges::any_of(holders, passes_any))
    return std::nullopt;
  Holders passing, rightful;
  for (const Claim* holder : holders)
    (passes(places, *head, *holder) ? passing : rightful).push_back(holder);
  if (passing.empty()) return std::nullopt;
  const auto words = [&](std::string_view harm) {
    return format("{} starts before {}, {}", text(passing.front()->run->id), text(head->id), harm);
  };
  const auto before = first_fit(standing, *head, rightful);
  if (before == Time{}) return words("which stands ahead of it and would fit");
  if (first_fit(standing, *head, holders) != before) return words("which it delays");
  return std::nullopt;
}

// --- Those who wait ---

std::optional<std::string> Turns::put_off(const Standing& before, const Standing& after,
                                          Time now) const {
  const auto was = head(before), is = head(after);
  if (!was || !is || was->run->id != is->run->id || is->start <= was->start) return std::nullopt;
  const Places places = places_of(after);
  std::map<RunId, Time> ends;
  for (const Claim* holder : holders_of(before)) ends[holder->run->id] = end_of(*holder);
  for (const Claim* holder : holders_of(after)) {
    const auto former = ends.find(holder->run->id);
    const bool is_harmless = is_preemptible(*holder->run) && !is_preemptible(*is->run);
    if (holder->starts && (is_harmless || !passes(places, *is->run, *holder))) return std::nullopt;
    if (begins_to_move(before, *holder)) return std::nullopt;
    if (former != ends.end() && former->second <= now && former->second < end_of(*holder))
      return std::nullopt;
  }
  for (const auto& [host, state] : after.hosts) {
    const auto former = before.hosts.find(host);
    if (takes_nobody(state) && (former == before.hosts.end() || !takes_nobody(former->second)))
      return std::nullopt;
  }
  return format("{} was to start at {} and now at {}, and nobody ahead of it came",
                text(is->run->id), text(was->start), text(is->start));
}

std::optional<std::string> Turns::idle(const Standing& standing, Time now) const {
  const auto first = head(standing);
  if (!first) return std::nullopt;
  const Holders holders = holders_of(standing);
  const Ground::Free free = free_of(standing, holders);
  // What a debug run in the lane keeps free is not the head's alone, and preemptible runs have a
  // head of their own.
  const bool lane_waits = !in_lane(standing).empty();
  for (const Claim& claim : standing.claims) {
    const Run& run = *claim.run;
    if (!waits_for_devices(run) || passed_limit(standing, holders, run)) continue;
    if (!can_be_placed(standing, run.spec) || !ground_.fits(run.spec, free)) continue;
    if (&run == first->run) return format("{} is the first that waits, and fits", text(run.id));
    if (!lane_waits && !is_preemptible(run) && now + time_left(run) <= first->start)
      return format("{} waits, though it fits and ends before {} can start", text(run.id),
                    text(first->run->id));
  }
  return std::nullopt;
}

}  // namespace lockstep::sim
