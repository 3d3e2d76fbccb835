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

}  // namespace

void Users::begin(int runs, Duration span) {
  for (int i = 0; i < runs; ++i)
    scene_.timeline.after(dice_.from_to(Duration(0), span),
                          [this] { submit(any_spec(), format("request-{}", ++requests_)); });
  const int changes = dice_.below(runs + 1);
  for (int i = 0; i < changes; ++i)
    scene_.timeline.after(dice_.from_to(Duration(0), span), [this] { change_a_mind(); });
}

// Whoever gets no answer asks again under the same id: his run may be there already.
void Users::submit(const RunSpec& spec, const std::string& request_id) {
  const auto run = daemon_.submit(spec, request_id);
  scene_.tell("user", "submits {} x {} + {} devices, time-out {}, {}: {}", spec.nodes, spec.devices,
              spec.remainder, text(spec.timeout), words_of(program_of(spec.command)),
              run ? text(*run) : run.error().message);
  if (!run && run.error().code != Code::invalid)
    scene_.timeline.after(kAskAgain, [this, spec, request_id] { submit(spec, request_id); });
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
  spec.project = dice_.percent(80) ? "demo" : "other";
  spec.nodes = dice_.percent(50) ? 1 : dice_.from_to(2, 4);
  spec.devices = dice_.from_to(1, 3);
  if (dice_.percent(15)) spec.remainder = dice_.below(spec.devices);
  spec.retries = dice_.below(3);
  spec.rank_loss_retries = dice_.below(4);
  spec.checkpoint_folder = "/shared/checkpoints";
  spec.hang_after = dice_.percent(30) ? Duration(0) : dice_.from_to(kHangLeast, kHangMost);
  const Program program = any_program();
  spec.command = command_of(program);
  spec.timeout = dice_.percent(85) ? program.whole_time() * dice_.from_to(1, 4) + seconds(30)
                                   : dice_.from_to(seconds(5), program.whole_time());
  return spec;
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
