#include "sim/promises.h"

#include <algorithm>

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

}  // namespace lockstep::sim
