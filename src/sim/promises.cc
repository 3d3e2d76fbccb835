#include "sim/promises.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace lockstep::sim {
namespace {

// As docs/design/scheduler.md promises: by whom a run is passed at most, in its own time-outs; four
// times as far if its project is beyond its share.
constexpr int kTimeOutsYounger = 20;
constexpr int kShareMost = 400;

std::string names_of(const std::vector<RunId>& runs) {
  std::vector<std::string> names;
  for (const RunId& run : runs) names.push_back(text(run));
  return joined(names, ", ");
}

}  // namespace

void Promises::check(const State& state, const Queue& queue) {
  const Commit nothing;
  const Rows rows(state, nothing);
  for (const RunId& id : state.open) check_wishes(rows, state.runs.at(id));
  const Standing standing = standing_of(state, nothing);
  check_order(state, queue.waiting(), standing);
  check_start(queue.waiting(), standing);
  if (auto idle = turns_.idle(standing, scene_.clock.now())) scene_.violate(std::move(*idle));
}

// What has come is not waited for any more, and what will not come neither.
void Promises::check_wishes(const Rows& rows, const Run& run) {
  if (run.state != RunState::queued) return;
  if (run.not_before && *run.not_before <= scene_.clock.now())
    scene_.violate(format("{} waits on though {} has come", text(run.id), text(*run.not_before)));
  if (!run.awaits_others) return;
  // One that ended at this very tick may have been looked at after the run.
  const Run* before = failed_predecessor(rows, run);
  if (before && *before->ended < scene_.clock.now())
    scene_.violate(format("{} waits for {}, which is {}", text(run.id), text(before->id),
                          text(before->state)));
  if (!unfinished_predecessor(rows, run))
    scene_.violate(text(run.id) + " waits for others, and all have succeeded");
}

void Promises::check_order(const State& state, const std::vector<WaitingRun>& told,
                           const Standing& standing) {
  std::vector<RunId> order;
  for (const WaitingRun& waiting : told) order.push_back(waiting.run);
  if (const auto right = turns_.order(standing); order != right)
    scene_.violate(format("they stand as {}, and should as {}", names_of(order), names_of(right)));
  check_overtaking(state, order);
}

// By those of its class; but for whom somebody of their own project told to stand back.
void Promises::check_overtaking(const State& state, const std::vector<RunId>& order) {
  for (std::size_t place = 0; place < order.size(); ++place) {
    const Run& run = state.runs.at(order[place]);
    const bool first_of_project = std::ranges::none_of(order, [&](const RunId& other) {
      return other.project == run.id.project && state.runs.at(other).priority > run.priority;
    });
    if (!first_of_project) continue;
    if (run.share > kShareMost)
      scene_.violate(format("{} counts {} % of its time-out", text(run.id), run.share));
    for (std::size_t ahead = 0; ahead < place; ++ahead) {
      const Run& other = state.runs.at(order[ahead]);
      if (other.spec.run_class != run.spec.run_class) continue;
      if (other.queued > run.queued + kTimeOutsYounger * run.spec.timeout * run.share / 100)
        scene_.violate(format("{} stands before {} and came {} later", text(other.id), text(run.id),
                              text(other.queued - run.queued)));
    }
  }
}

void Promises::check_start(const std::vector<WaitingRun>& told, const Standing& standing) {
  const auto head = turns_.head(standing);
  if (!head || head->start == Time{}) return;
  const auto found = std::ranges::find(told, head->run->id, &WaitingRun::run);
  if (found == told.end()) return;
  if (found->expected_start != head->start)
    scene_.violate(format("{} is told that it starts at {}, and it is {}", text(head->run->id),
                          found->expected_start ? text(*found->expected_start) : "no time",
                          text(head->start)));
}

// --- No later than it was told ---

void Promises::check_latest(const State& state, const Queue& queue, bool well) {
  if (is_broken(state, well)) promises_.clear();
  note_comers(state);
  keep(state);
  seen_.clear();
  for (const RunId& id : state.open) {
    const Run& run = state.runs.at(id);
    const bool waits = run.state == RunState::queued && !run.held;
    seen_[id] = {waits, run.epoch, run.priority};
  }
  if (well) promise(state, queue);
}

Duration Promises::key_of(const Run& run) const {
  return on_timeline(run.queued) + kTimeOutsYounger * run.spec.timeout * run.share / 100;
}

bool Promises::is_broken(const State& state, bool well) {
  constexpr Duration kBreak = std::chrono::seconds(3);  // the daemon was away
  const Duration now = scene_.timeline.now();
  bool broken = !well || now - std::exchange(checked_, now) > kBreak;
  std::map<std::string, HostState> hosts;
  for (const auto& [id, host] : state.hosts)
    if (host.state != HostState::open) hosts[id] = host.state;
  broken = std::exchange(hosts_, std::move(hosts)) != hosts_ || broken;
  broken = std::exchange(limits_, state.limits) != limits_ || broken;
  for (const RunId& id : state.open) {
    const Run& run = state.runs.at(id);
    if (const auto seen = seen_.find(id); seen != seen_.end())
      broken = broken || seen->second.priority != run.priority;
  }
  broken = outlives_end(state) || broken;
  if (broken) ends_.clear();
  return broken;
}

// Also if it begins to drain when what was counted on is over.
bool Promises::outlives_end(const State& state) {
  bool outlived = false;
  std::map<AttemptId, Duration> ends;
  for (const RunId& id : state.open) {
    const Run& run = state.runs.at(id);
    const Attempt* attempt = live_attempt(state, id);
    if (!attempt) continue;
    const Duration end =
        on_timeline(attempt->draining.value_or(attempt->created + run.spec.timeout - run.charged));
    const auto known = ends_.find(attempt->id);
    ends[attempt->id] = known == ends_.end() ? end : std::min(end, known->second);
    outlived = outlived || scene_.timeline.now() > ends[attempt->id] + overhead_;
  }
  ends_ = std::move(ends);
  return outlived;
}

// It goes on as it was when it was last looked at, or has started since.
bool Promises::is_known(const Run& run) const {
  const auto seen = seen_.find(run.id);
  if (seen == seen_.end()) return false;
  if (!seen->second.waits) return run.state != RunState::queued && run.epoch == seen->second.epoch;
  return run.epoch == seen->second.epoch + (run.state == RunState::queued ? 0 : 1);
}

// Runs that wait now, or have started since, and did not wait when the promises were made.
void Promises::note_comers(const State& state) {
  for (const RunId& id : state.open) {
    const Run& run = state.runs.at(id);
    if (run.held || is_known(run)) continue;
    std::erase_if(promises_, [&](const auto& entry) {
      const auto& [waits, told] = entry;
      const bool has_priority =
          run.id.project == waits.project && run.priority > state.runs.at(waits).priority;
      return run.spec.run_class != RunClass::normal || key_of(run) <= told.key || has_priority ||
             run.spec.timeout > told.longest;
    });
  }
}

void Promises::keep(const State& state) {
  std::erase_if(promises_, [&](const auto& entry) {
    const auto& [id, told] = entry;
    const Run& run = state.runs.at(id);
    const std::int64_t epoch = seen_.at(id).epoch;
    const bool starts = run.epoch > epoch;
    const Duration start =
        starts ? on_timeline(state.attempts.at({id, epoch + 1}).created) : scene_.timeline.now();
    const bool over = starts || run.state != RunState::queued || run.held;
    if ((starts || !over) && start > told.latest)
      scene_.violate(format("{} {} {} after the latest start that it was told", text(id),
                            starts ? "starts" : "waits on", text(start - told.latest)));
    return over;
  });
}

void Promises::promise(const State& state, const Queue& queue) {
  const auto& waiting = queue.waiting();
  Duration key = Duration::min();
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    const RunId& id = waiting[i].run;
    key = std::max(key, key_of(state.runs.at(id)));
    const auto& latest = queue.start_times()[i].latest;
    if (!latest) continue;
    const auto known = promises_.find(id);
    if (known != promises_.end() && known->second.latest <= on_timeline(*latest)) continue;
    Duration longest{};
    for (const RunId& other : state.open)
      if (const Run& run = state.runs.at(other);
          other != id && run.state == RunState::queued && !run.held)
        longest = std::max(longest, run.spec.timeout - run.charged);
    promises_[id] = {on_timeline(*latest), key, longest};
  }
}

}  // namespace lockstep::sim
