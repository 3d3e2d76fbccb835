#include "sim/turns.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/format.h"

namespace lockstep::sim {
namespace {

constexpr Duration kMoment(1);

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

// It starts in this commit, and its turn has not come.
bool is_about_to_start(const Claim& claim) { return claim.starts && !claim.attempt; }

bool stands_in_queue(const Claim& claim) {
  return is_about_to_start(claim) || waits_for_devices(*claim.run);
}

bool leaves(const Claim& claim) { return claim.attempt && claim.attempt->draining; }

// Where devices were kept for it until now.
bool is_where_it_moves(const State& durable, const AttemptId& id,
                       const std::vector<const Node*>& nodes) {
  const auto found = durable.attempts.find(id);
  if (found == durable.attempts.end()) return false;
  const Attempt& former = found->second;
  return former.state != AttemptState::ended && former.cause == Cause::moved && !nodes.empty() &&
         std::ranges::equal(former.moves_to, nodes, {}, &Slice::host, &Node::host);
}

Claim claim_of(const Rows& rows, const State& durable, const RunId& id) {
  Claim claim{rows.find(id)};
  const AttemptId newest{id, claim.run->epoch};
  const Attempt* attempt = rows.find(newest);
  if (!attempt || attempt->state == AttemptState::ended) return claim;
  claim.attempt = attempt;
  const bool adopted = attempt->generation != durable.store.generation;
  claim.starts = !durable.attempts.contains(newest) && !adopted;
  for (int index = 0; index < node_count(claim.run->spec); ++index)
    if (const Node* node = rows.find(NodeId{newest, index})) claim.nodes.push_back(node);
  claim.moves = claim.starts && is_where_it_moves(durable, {id, newest.epoch - 1}, claim.nodes);
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

// Before anybody starts, but for those whose devices were kept for them.
Standing before_starts(Standing standing) {
  for (Claim& claim : standing.claims) {
    if (!claim.starts || claim.moves) continue;
    claim.attempt = nullptr;
    claim.nodes.clear();
  }
  return standing;
}

// From now on it is moved off a drained host, to wherever there is room.
bool is_driven_out(const Standing& before, const Standing& after, const Claim& claim) {
  if (!leaves(claim) || claim.attempt->cause != Cause::moved) return false;
  const auto host = after.hosts.find(claim.nodes.front()->host);
  if (host == after.hosts.end() || host->second != HostState::drained) return false;
  return std::ranges::none_of(before.claims, [&](const Claim& former) {
    return former.run->id == claim.run->id && leaves(former);
  });
}

std::vector<const Claim*> holders_of(const Standing& standing) {
  std::vector<const Claim*> holders;
  for (const Claim& claim : standing.claims)
    if (claim.attempt) holders.push_back(&claim);
  return holders;
}

bool has_orphans(const std::map<NodeName, Orphan>& orphans, const RunId& run) {
  return std::ranges::any_of(orphans,
                             [&](const auto& entry) { return entry.first.id.attempt.run == run; });
}

bool is_held(const std::vector<Claim>& claims, const std::string& host, int device) {
  return std::ranges::any_of(claims, [&](const Claim& claim) {
    return std::ranges::any_of(claim.nodes, [&](const Node* node) {
      return node->host == host && std::ranges::count(node->devices, device) > 0;
    });
  });
}

// They end with the last of their nodes. What a run of the store holds as well counts once.
std::vector<std::shared_ptr<const Foreign>> foreign_of(const std::map<NodeName, Orphan>& orphans,
                                                       const std::vector<Claim>& claims) {
  std::map<RunId, std::shared_ptr<Foreign>> found;
  for (const auto& [name, orphan] : orphans) {
    auto& foreign = found[name.id.attempt.run];
    if (!foreign) foreign = std::make_shared<Foreign>();
    foreign->run.id = foreign->attempt.id.run = holder_of_orphan(name.id.attempt.run);
    foreign->run.state = RunState::running;
    foreign->run.spec.timeout = Duration(0);
    foreign->attempt.created = std::max(foreign->attempt.created, orphan.ends);
    Node& node = foreign->nodes.emplace_back();
    node.host = orphan.slice.host;
    for (int device : orphan.slice.devices)
      if (!is_held(claims, node.host, device)) node.devices.push_back(device);
  }
  std::vector<std::shared_ptr<const Foreign>> all;
  for (auto& [run, foreign] : found) all.push_back(std::move(foreign));
  return all;
}

Claim claim_of(const Foreign& foreign) {
  Claim claim{.run = &foreign.run, .attempt = &foreign.attempt};
  for (const Node& node : foreign.nodes) claim.nodes.push_back(&node);
  return claim;
}

// What they hold, and until when, as far as it matters.
bool same_orphans(const Standing& one, const Standing& other) {
  return std::ranges::equal(one.orphans, other.orphans, [](const auto& a, const auto& b) {
    return a->run.id == b->run.id && a->attempt.created == b->attempt.created &&
           a->nodes == b->nodes;
  });
}

}  // namespace

Standing standing_of(const State& durable, const Commit& commit) {
  const Rows rows(durable, commit);
  Standing standing{.hosts = rows.hosts(), .limits = rows.limits()};
  const auto orphans = rows.orphans();
  for (const RunId& id : rows.open()) {
    Claim claim = claim_of(rows, durable, id);
    if (claim.attempt || !has_orphans(orphans, id)) standing.claims.push_back(std::move(claim));
  }
  standing.orphans = foreign_of(orphans, standing.claims);
  for (const auto& foreign : standing.orphans) standing.claims.push_back(claim_of(*foreign));
  return standing;
}

// --- The order ---

// Debug runs that stand ahead of everybody: those who wait while the lane has room for them.
std::set<RunId> Turns::in_lane(const Standing& standing) const {
  int held = 0;
  for (const Claim& claim : standing.claims) {
    if (!is_debug(*claim.run) || !claim.attempt) continue;
    const bool twice = !claim.attempt->moves_to.empty();
    held += rank_count(claim.run->spec) * (twice ? 2 : 1);
  }
  std::set<RunId> lane;
  for (const Claim& claim : standing.claims) {
    const int then = held + rank_count(claim.run->spec);
    if (is_debug(*claim.run) && stands_in_queue(claim) &&
        then * 100 <= ground_.device_count() * kLanePercent)
      lane.insert(claim.run->id);
  }
  return lane;
}

// A run stands behind those of its project with a higher priority, at the latest of their keys.
Turns::Places Turns::places_of(const Standing& standing) const {
  const std::set<RunId> lane = in_lane(standing);
  Places places;
  for (const Claim& claim : standing.claims) {
    if (!stands_in_queue(claim)) continue;
    const Run& run = *claim.run;
    Time key = key_of(run);
    for (const Claim& other : standing.claims)
      if (stands_in_queue(other) && other.run->spec.project == run.spec.project &&
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
// if that is now, nothing if it never is. Unless it is preemptible itself, those who are count as
// gone so long behind those who were told to leave: it has them evicted when its time comes.
std::optional<Time> Turns::first_fit(const Standing& standing, const Run& run, Holders holders,
                                     Duration behind) const {
  Ground::Free free = free_of(standing, holders);
  const auto fits = [&] {
    return ground_.fits(run.spec, free) && !passed_limit(standing, holders, run);
  };
  if (fits()) return Time{};
  std::vector<Hold> holds = holds_of(holders);
  Time evicted(Duration(1));
  for (const Hold& hold : holds)
    if (leaves(*hold.claim)) evicted = std::max(evicted, hold.end);
  for (Hold& hold : holds)
    if (!is_preemptible(run) && is_preemptible(*hold.claim->run) && !leaves(*hold.claim))
      hold.end = std::min(hold.end, evicted + behind);
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

// Of all or of one rank. Whose limit is reached by those who hold devices blocks nobody, and who is
// about to start keeps nobody waiting.
const Run* Turns::first_waiting(const Standing& standing, const Places& places,
                                std::optional<int> rank) const {
  const Holders holders = holders_of(standing);
  const Run* first = nullptr;
  for (const Claim& claim : standing.claims) {
    const Run& run = *claim.run;
    if (!waits_for_devices(run)) continue;
    if (rank && std::get<0>(places.at(run.id)) != *rank) continue;
    if (first && places.at(first->id) < places.at(run.id)) continue;
    if (passed_limit(standing, holders, run) || !can_be_placed(standing, run.spec)) continue;
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
  return wrong_turns(standing);
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

// Who stands behind others of his project comes forward once those have started, so it matters who
// does first. Any order will do: the pass goes over the queue several times.
std::optional<std::string> Turns::wrong_turns(const Standing& standing) const {
  Standing moment = before_starts(standing);
  InVain in_vain;
  return wrong_from(moment, standing, in_vain);
}

// From this moment on: what is wrong with the first of them, if no order leads to the end.
std::optional<std::string> Turns::wrong_from(Standing& moment, const Standing& end,
                                             InVain& in_vain) const {
  const Places places = places_of(moment);
  std::map<Place, std::size_t> left;
  for (std::size_t i = 0; i < moment.claims.size(); ++i)
    if (is_about_to_start(moment.claims[i])) left.emplace(places.at(moment.claims[i].run->id), i);
  std::set<std::size_t> names;
  for (const auto& [place, i] : left) names.insert(i);
  if (const auto known = in_vain.find(names); known != in_vain.end()) return known->second;
  std::optional<std::string> first_wrong;
  for (const auto& [place, i] : left) {
    auto wrong = wrong_turn(moment, places, end.claims[i]);
    if (!wrong) {
      const Claim before = std::exchange(moment.claims[i], end.claims[i]);
      wrong = wrong_from(moment, end, in_vain);
      moment.claims[i] = before;
      if (!wrong) return std::nullopt;
    }
    if (!first_wrong) first_wrong = std::move(wrong);
  }
  if (first_wrong) in_vain.emplace(std::move(names), *first_wrong);
  return first_wrong;
}

// Who is preemptible passes any head that is not, since it can have him evicted, and is judged by
// the first of his like; but not while somebody leaves for a head. That first one may wait only to
// leave what it may hold to somebody ahead (unless it ends in time): it has no place to lose then.
std::optional<std::string> Turns::wrong_turn(const Standing& moment, const Places& places,
                                             const Claim& claim) const {
  const bool alone = is_preemptible(*claim.run) && std::ranges::none_of(moment.claims, leaves);
  const Run* head =
      alone ? first_waiting(moment, places, kPreemptible) : first_waiting(moment, places);
  if (!head || places.at(claim.run->id) < places.at(head->id)) return std::nullopt;
  if (takes_limit(moment, places, *head)) return std::nullopt;
  const auto words = [&](std::string_view harm) {
    return format("{} starts before {}, {}", text(claim.run->id), text(head->id), harm);
  };
  Holders holders = holders_of(moment);
  // Nobody takes a place that it has once those have left, for which others had to be evicted.
  const auto before = first_fit(moment, *head, holders, kMoment);
  if (before == Time{}) return words("which stands ahead of it and would fit");
  holders.push_back(&claim);
  if (first_fit(moment, *head, holders, kMoment) != before) return words("which it delays");
  return std::nullopt;
}

// --- Those who wait ---

// Before anybody starts: of those who do, each is judged by himself. A start that is overdue may be
// at any moment. What orphans hold is seen when the engine is asked.
std::optional<std::string> Turns::put_off(const Standing& before, const Standing& after,
                                          Time now) const {
  const Standing then = before_starts(after);
  const auto was = head(before), is = head(then);
  if (!same_orphans(before, then)) return std::nullopt;
  if (!was || !is || was->run->id != is->run->id || is->start <= std::max(was->start, now))
    return std::nullopt;
  std::map<RunId, Time> ends;
  for (const Claim* holder : holders_of(before)) ends[holder->run->id] = end_of(*holder);
  for (const Claim* holder : holders_of(then)) {
    const auto former = ends.find(holder->run->id);
    if (is_driven_out(before, then, *holder)) return std::nullopt;
    if (former != ends.end() && former->second <= now && former->second < end_of(*holder))
      return std::nullopt;
  }
  for (const auto& [host, state] : then.hosts) {
    const auto former = before.hosts.find(host);
    if (takes_nobody(state) && (former == before.hosts.end() || !takes_nobody(former->second)))
      return std::nullopt;
  }
  return format("{} was to start at {} and now at {}, and nobody ahead of it came",
                text(is->run->id), text(was->start), text(is->start));
}

// Until when who starts has to end if he is to delay none of the heads that he must not: the first
// of his rank and of those ahead, but of preemptible runs, which any other has evicted. While
// somebody leaves for one of them, they keep from what he leaves, too.
Time Turns::bound_for(const Standing& standing, const Places& places, const Run& run) const {
  const int own = std::get<0>(places.at(run.id));
  const bool alone = own == kPreemptible && std::ranges::none_of(standing.claims, leaves);
  Time bound = Time::max();
  for (int rank = alone ? own : kLane; rank <= own; ++rank) {
    const Run* first = first_waiting(standing, places, rank);
    if (!first || first == &run) continue;
    const auto start = first_fit(standing, *first, holders_of(standing));
    bound = std::min(bound, start.value_or(Time::max()));
  }
  return bound;
}

// One that is preemptible would hold what the project or user of one ahead of it may hold.
bool Turns::takes_limit(const Standing& standing, const Places& places, const Run& run) const {
  if (!is_preemptible(run)) return false;
  const Claim claim{&run};
  Holders holders = holders_of(standing);
  holders.push_back(&claim);
  for (int rank = kLane; rank < kPreemptible; ++rank)
    if (const Run* first = first_waiting(standing, places, rank);
        first && passed_limit(standing, holders, *first))
      return true;
  return false;
}

std::optional<std::string> Turns::idle(const Standing& standing, Time now) const {
  const Places places = places_of(standing);
  const Holders holders = holders_of(standing);
  const Ground::Free free = free_of(standing, holders);
  for (const Claim& claim : standing.claims) {
    const Run& run = *claim.run;
    if (!waits_for_devices(run) || passed_limit(standing, holders, run)) continue;
    if (!can_be_placed(standing, run.spec) || !ground_.fits(run.spec, free)) continue;
    if (takes_limit(standing, places, run)) continue;
    const Time bound = bound_for(standing, places, run);
    if (bound == Time::max()) return format("{} is the first that waits, and fits", text(run.id));
    if (now + time_left(run) <= bound)
      return format("{} waits, though it fits and ends before {}, when those ahead of it can start",
                    text(run.id), text(bound));
  }
  return std::nullopt;
}

}  // namespace lockstep::sim
