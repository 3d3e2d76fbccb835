#include "sim/world/users.h"

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kSubmitRetryInterval = seconds(7);
constexpr Duration kStepMax = seconds(4);
constexpr Duration kHangMin = 3 * kStepMax;
constexpr Duration kHangMax = minutes(2);
constexpr Duration kStepTimeoutMax = minutes(1);  // of ranks with their peers
constexpr int kSubmissionSpeedup = 6;             // so much sooner all come
constexpr Duration kNotBeforeMax = minutes(15);   // from a submission on
constexpr int kUserPriorityMax = 2;

// "2 x 1 + 0 devices, time-out 1m, after demo/3, of class debug, 20 steps of ..."
std::string describe_run_spec(const model::RunSpec& spec) {
  std::string words = format("{} x {} + {} devices, time-out {}", spec.nodes, spec.devices,
                             spec.remainder, text(*spec.timeout));
  if (spec.run_class != model::RunClass::normal)
    words += format(", of class {}", name_of(spec.run_class));
  if (spec.priority != 0) words += format(", priority {}", spec.priority);
  if (!spec.after.empty()) words += ", after " + joined(spec.after, " and ");
  if (spec.not_before) words += ", not before " + text(*spec.not_before);
  return words + ", " + describe_program(program_of(spec.command));
}

}  // namespace

void Users::begin(int runs, Duration span) {
  habits_ = {.hurry = random_.percent(40),
             .classes = random_.percent(40),
             .priorities = random_.percent(30),
             .order = random_.percent(40),
             .moments = random_.percent(30)};
  for (int i = 0; i < runs; ++i) submit_later(habits_.hurry ? span / kSubmissionSpeedup : span);
  const int changes = random_.below(runs + 1);
  for (int i = 0; i < changes; ++i)
    context_.timeline.after(random_.from_to(Duration(0), span),
                            [this] { stop_or_resume_any_run(); });
}

void Users::submit_later(Duration span) {
  context_.timeline.after(random_.from_to(Duration(0), span), [this] {
    const std::string_view user = random_.one_of(kUserNames);
    submit(any_spec(), people_.any_caller(user), format("request-{}", ++requests_));
  });
}

// A user that gets no answer repeats the request under the same id, because the run may already
// exist.
void Users::submit(const model::RunSpec& spec, const People::Caller& by,
                   const std::string& request_id) {
  const auto run = try_submit(spec, by, request_id);
  if (context_.traced())
    context_.trace("user " + by.user, "submits {}: {}", describe_run_spec(spec),
                   run ? text(*run) : run.error().message);
  const bool answered =
      run || run.error().code == Code::invalid || run.error().code == Code::denied;
  if (!answered)
    context_.timeline.after(kSubmitRetryInterval,
                            [this, spec, by, request_id] { submit(spec, by, request_id); });
  if (!run) return;
  truth_.submission_acknowledged(*run);
  submitted_runs_.push_back(*run);
}

Result<model::RunId> Users::try_submit(model::RunSpec spec, const People::Caller& by,
                                       const std::string& request_id) {
  model::Origin origin{.user = by.user, .git_commit = "", .git_dirty = false};
  TRY(people_.admit_submission(by, request_id, spec, origin));
  const bool personal = has_personal_project_ && spec.project == kProjects.back();
  return daemon_.submit(spec, request_id, origin,
                        personal ? model::ProjectKind::personal : model::ProjectKind::shared);
}

void Users::stop_or_resume_any_run() {
  if (submitted_runs_.empty()) return;
  const model::RunId run = random_.one_of(submitted_runs_);
  const bool stop = random_.percent(50);
  const auto admitted = people_.admit_control(run);
  const auto done = !admitted ? admitted : stop ? this->stop(run) : resume(run);
  context_.trace("user", "{} {}{}{}", stop ? "stops" : "resumes", text(run), done ? "" : ": ",
                 done ? "" : done.error().message);
}

Result<void> Users::stop(const model::RunId& run) {
  truth_.stop_requested(run);
  TRY(daemon_.stop(run));
  truth_.check_stop_acknowledged(run);
  return {};
}

Result<void> Users::resume(const model::RunId& run) {
  truth_.resume_requested(run);
  auto resumed = daemon_.resume(run);
  truth_.resume_request_done(run);
  return resumed;
}

model::RunSpec Users::any_spec() {
  model::RunSpec spec;
  spec.project = kProjects[random_.percent(70) ? 0 : 1];
  spec.nodes = random_.percent(50) ? 1 : random_.from_to(2, 4);
  spec.devices = random_.from_to(1, 3);
  if (random_.percent(15)) spec.remainder = random_.below(spec.devices);
  spec.retries = random_.below(3);
  spec.rank_loss_retries = random_.below(4);
  spec.checkpoint_folder = format("/shared/checkpoints/{}", ++specs_);
  spec.hang_after = random_.percent(30) ? Duration(0) : random_.from_to(kHangMin, kHangMax);
  const Program program = any_program();
  spec.command = command_of(program);
  spec.timeout = random_.percent(85) ? program.whole_time() * random_.from_to(1, 4) + seconds(30)
                                     : random_.from_to(seconds(5), program.whole_time());
  add_scheduling_options(spec);
  return spec;
}

// A user may submit impossible options, such as a predecessor that has failed.
void Users::add_scheduling_options(model::RunSpec& spec) {
  if (habits_.classes && random_.percent(60)) {
    spec.run_class = random_.percent(50) ? model::RunClass::debug : model::RunClass::preemptible;
    if (spec.run_class == model::RunClass::debug) spec.nodes = 1;
    if (spec.run_class == model::RunClass::debug) spec.remainder = 0;
  }
  spec.stays = random_.percent(15);
  if (habits_.priorities && random_.percent(50))
    spec.priority = random_.from_to(-kUserPriorityMax, kUserPriorityMax);
  if (habits_.order && random_.percent(40))
    for (int others = random_.from_to(1, 2); others > 0 && !submitted_runs_.empty(); --others)
      spec.after.push_back(text(random_.one_of(submitted_runs_)));
  if (habits_.moments && random_.percent(30))
    spec.not_before = context_.clock.now() + random_.from_to(Duration(0), kNotBeforeMax);
}

Program Users::any_program() {
  Program program;
  program.steps = random_.from_to(5, 40);
  program.step_time = random_.from_to(milliseconds(200), kStepMax);
  program.checkpoint_every = random_.from_to(1, program.steps);
  program.stop_time =
      random_.percent(80) ? random_.from_to(milliseconds(10), seconds(3)) : minutes(10);
  program.child_lifetime =
      random_.percent(80) ? Duration(0) : random_.from_to(seconds(1), minutes(5));
  program.exits_on_peer_loss = random_.percent(80);
  if (random_.percent(40)) program.step_timeout = random_.from_to(kHangMin, kStepTimeoutMax);
  program.reports_steps = random_.percent(85);
  if (random_.percent(65)) return program;
  program.fault = static_cast<ProgramFault>(random_.from_to(1, 3));
  program.fault_step = random_.from_to(1, program.steps);
  program.fault_rank = random_.below(8);
  program.faulty_attempts = random_.from_to(1, 5);
  return program;
}

}  // namespace lockstep::sim
