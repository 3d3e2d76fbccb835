#include "platform/server/calls/call_context.h"

#include <chrono>

#include "platform/core/step/ending/reason_text.h"
#include "platform/server/findings/finding_watch.h"
#include "platform/server/first_error.h"
#include "platform/server/queue_views.h"
#include "platform/server/views.h"

namespace lockstep::server {
namespace {

// Agents give up a call after 10 s.
constexpr Duration kLagReported = std::chrono::seconds(5);

}  // namespace

model::AuditRecord CallContext::filled(model::AuditRecord record, Details details) {
  record.target = std::move(details.target);
  record.project = std::move(details.project);
  record.before = step::one_line(details.before);
  record.after = step::one_line(details.after);
  return record;
}

CallContext::Details CallContext::run_details(const model::RunId& run, std::string after) const {
  const auto found = state().runs.find(run);
  return {.target = text(run),
          .project = run.project,
          .before = found == state().runs.end() ? "" : std::string(text(found->second.state)),
          .after = std::move(after)};
}

std::vector<std::string> CallContext::problems() const {
  auto all = setup_.problems ? setup_.problems() : std::vector<std::string>();
  if (const Duration lag = lag_.longest(); lag >= kLagReported)
    all.push_back(
        format("the daemon did not answer for {} in the last minutes: its disk or machine "
               "is too slow for its work",
               text(lag)));
  return all;
}

// Its rows are in the state until a later tick.
Result<const model::Run*> CallContext::find_run(const model::RunId& id) const {
  TRY(setup_.controller.fetch(id));
  const auto found = state().runs.find(id);
  if (found == state().runs.end()) return no_such_run(id);
  return &found->second;
}

Result<api::RunView> CallContext::view(const Principal& caller, const model::RunId& id) const {
  auto view = TRY(brief_view(caller, id));
  for (const auto& [name, value] : state().runs.at(id).spec.env)
    view.env_digests[name] = setup_.keys.variable_digest(name, value);
  auto events = TRY(setup_.insight.events(id));
  for (const auto& found : TRY(store::FindingStore(setup_.database).list({.run = id})))
    events.push_back({.epoch = found.attempt.epoch,
                      .time = found.finding.since,
                      .text = "finding: " + text_of(found)});
  view.events = event_views(state().runs.at(id).audit, std::move(events));
  view.attempts = attempt_views(state(), id);
  TRY(add_first_errors(view.attempts, state(), id, setup_.insight));
  view.checkpoints = TRY(setup_.insight.checkpoints(id));
  return limited(caller, std::move(view));
}

// Its cost does not depend on the number of ranks of an ended run.
Result<api::RunView> CallContext::brief_view(const Principal& caller,
                                             const model::RunId& id) const {
  const model::Run& run = *TRY(find_run(id));
  auto view = run_view(state(), run, TRY(setup_.insight.summary(id)),
                       setup_.controller.checkpoint_folder(run), now());
  if (run.state == model::RunState::queued)
    add_start_estimate(view, run, setup_.controller.scheduler());
  view.problems = problems();
  return limited(caller, std::move(view));
}

}  // namespace lockstep::server
