#include "sim/users.h"

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kAskAgain = seconds(7);
constexpr Duration kStepMost = seconds(4);
constexpr Duration kHangLeast = 3 * kStepMost;
constexpr Duration kHangMost = minutes(2);
constexpr Duration kPatienceMost = minutes(1);  // of ranks with their peers
constexpr int kHurry = 6;                       // so much sooner all come
constexpr Duration kMomentMost = minutes(15);   // from a submission on
constexpr int kPriorityFar = 2;

// "2 x 1 + 0 devices, time-out 1m, after demo/3, of class debug, 20 steps of ..."
std::string words_of(const RunSpec& spec) {
  std::string words = format("{} x {} + {} devices, time-out {}", spec.nodes, spec.devices,
                             spec.remainder, text(spec.timeout));
  if (spec.run_class != RunClass::normal) words += format(", of class {}", name_of(spec.run_class));
  if (spec.priority != 0) words += format(", priority {}", spec.priority);
  if (!spec.after.empty()) words += ", after " + joined(spec.after, " and ");
  if (spec.not_before) words += ", not before " + text(*spec.not_before);
  return words + ", " + words_of(program_of(spec.command));
}

}  // namespace

void Users::begin(int runs, Duration span) {
  habits_ = {.hurry = dice_.percent(40),
             .classes = dice_.percent(40),
             .priorities = dice_.percent(30),
             .order = dice_.percent(40),
             .moments = dice_.percent(30)};
  for (int i = 0; i < runs; ++i) submit_later(habits_.hurry ? span / kHurry : span);
  const int changes = dice_.below(runs + 1);
  for (int i = 0; i < changes; ++i)
    scene_.timeline.after(dice_.from_to(Duration(0), span), [this] { change_a_mind(); });
}

void Users::submit_later(Duration span) {
  scene_.timeline.after(dice_.from_to(Duration(0), span), [this] {
    const Origin by{
        .user = std::string(dice_.one_of(kUserNames)), .git_commit = "", .git_dirty = false};
    submit(any_spec(), by, format("request-{}", ++requests_));
  });
}

// Whoever gets no answer asks again under the same id: his run may be there already.
void Users::submit(const RunSpec& spec, const Origin& by, const std::string& request_id) {
  const auto run = daemon_.submit(spec, request_id, by);
  if (scene_.traced())
    scene_.tell("user " + by.user, "submits {}: {}", words_of(spec),
                run ? text(*run) : run.error().message);
  if (!run && run.error().code != Code::invalid)
    scene_.timeline.after(kAskAgain,
                          [this, spec, by, request_id] { submit(spec, by, request_id); });
  if (!run) return;
  truth_.promised(*run);
  mine_.push_back(*run);
}

void Users::change_a_mind() {
  if (mine_.empty()) return;
  const RunId run = dice_.one_of(mine_);
  const bool stop = dice_.percent(50);
  const auto done = stop ? this->stop(run) : resume(run);
  scene_.tell("user", "{} {}{}{}", stop ? "stops" : "resumes", text(run), done ? "" : ": ",
              done ? "" : done.error().message);
}

Result<void> Users::stop(const RunId& run) {
  truth_.asks_to_stop(run);
  TRY(daemon_.stop(run));
  truth_.promised_to_stop(run);
  return {};
}

Result<void> Users::resume(const RunId& run) {
  truth_.asks_to_resume(run);
  auto resumed = daemon_.resume(run);
  truth_.has_asked_to_resume(run);
  return resumed;
}

RunSpec Users::any_spec() {
  RunSpec spec;
  spec.project = kProjects[dice_.percent(70) ? 0 : 1];
  spec.nodes = dice_.percent(50) ? 1 : dice_.from_to(2, 4);
  spec.devices = dice_.from_to(1, 3);
  if (dice_.percent(15)) spec.remainder = dice_.below(spec.devices);
  spec.retries = dice_.below(3);
  spec.rank_loss_retries = dice_.below(4);
  spec.checkpoint_folder = format("/shared/checkpoints/{}", ++specs_);
  spec.hang_after = dice_.percent(30) ? Duration(0) : dice_.from_to(kHangLeast, kHangMost);
  const Program program = any_program();
  spec.command = command_of(program);
  spec.timeout = dice_.percent(85) ? program.whole_time() * dice_.from_to(1, 4) + seconds(30)
                                   : dice_.from_to(seconds(5), program.whole_time());
  add_wishes(spec);
  return spec;
}

// A user may ask for what cannot be: to follow a run that has failed, for one.
void Users::add_wishes(RunSpec& spec) {
  if (habits_.classes && dice_.percent(60)) {
    spec.run_class = dice_.percent(50) ? RunClass::debug : RunClass::preemptible;
    if (spec.run_class == RunClass::debug) spec.nodes = 1;
    if (spec.run_class == RunClass::debug) spec.remainder = 0;
  }
  spec.stays = dice_.percent(15);
  if (habits_.priorities && dice_.percent(50))
    spec.priority = dice_.from_to(-kPriorityFar, kPriorityFar);
  if (habits_.order && dice_.percent(40))
    for (int others = dice_.from_to(1, 2); others > 0 && !mine_.empty(); --others)
      spec.after.push_back(text(dice_.one_of(mine_)));
  if (habits_.moments && dice_.percent(30))
    spec.not_before = scene_.clock.now() + dice_.from_to(Duration(0), kMomentMost);
}

Program Users::any_program() {
  Program program;
  program.steps = dice_.from_to(5, 40);
  program.step_time = dice_.from_to(milliseconds(200), kStepMost);
  program.checkpoint_every = dice_.from_to(1, program.steps);
  program.stop_time = dice_.percent(80) ? dice_.from_to(milliseconds(10), seconds(3)) : minutes(10);
  program.left_behind = dice_.percent(80) ? Duration(0) : dice_.from_to(seconds(1), minutes(5));
  program.notices_peers = dice_.percent(80);
  if (dice_.percent(40)) program.patience = dice_.from_to(kHangLeast, kPatienceMost);
  program.reports = dice_.percent(85);
  if (dice_.percent(65)) return program;
  program.misfortune = static_cast<Misfortune>(dice_.from_to(1, 3));
  program.bad_step = dice_.from_to(1, program.steps);
  program.bad_rank = dice_.below(8);
  program.bad_attempts = dice_.from_to(1, 5);
  return program;
}

}  // namespace lockstep::sim
