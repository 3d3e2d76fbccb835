#include "sim/training.h"

#include <algorithm>
#include <csignal>

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kEndSpread = milliseconds(300);   // between the ends of ranks that are done
constexpr Duration kNoticeLeast = milliseconds(50);  // from a peer's death to the echo
constexpr Duration kNoticeMost = seconds(5);

bool meets_misfortune(const Program& program, const AttemptId& id) {
  return program.misfortune != Misfortune::none && id.epoch <= program.bad_attempts;
}

}  // namespace

void Training::join(const AttemptId& id, int rank, int world_size, const Program& program,
                    EndRank end) {
  Gang& gang = gangs_[id];
  gang.program = program;
  gang.world_size = world_size;
  gang.ranks.insert_or_assign(rank, std::move(end));
  if (std::ssize(gang.ranks) < world_size || gang.broken) return;
  gang.step = gang.first_step = truth_.checkpoint_of(id.run);
  scene_.tell("ranks " + text(id), "all {} meet and go on from step {}", world_size, gang.step);
  go_on(id);
}

void Training::leave(const AttemptId& id, int rank, bool well) {
  const auto found = gangs_.find(id);
  if (found == gangs_.end()) return;
  Gang& gang = found->second;
  gang.ranks.erase(rank);
  if (!well && !gang.broken && !gang.done && gang.program.notices_peers)
    for (const auto& [peer, end] : gang.ranks)
      end_later(id, peer, dice_.from_to(kNoticeLeast, kNoticeMost), {RankState::exited, 1});
  if (!well && !gang.broken) stop_stepping(gang);
  gang.broken = gang.broken || !well;
  if (gang.ranks.empty()) gangs_.erase(found);
}

// Null once a rank is gone.
Training::Gang* Training::whole_gang(const AttemptId& id) {
  const auto found = gangs_.find(id);
  if (found == gangs_.end() || found->second.broken) return nullptr;
  return std::ssize(found->second.ranks) == found->second.world_size ? &found->second : nullptr;
}

// To the next step at which anything happens besides the step itself.
void Training::go_on(const AttemptId& id) {
  Gang& gang = gangs_.at(id);
  const Program& program = gang.program;
  gang.stepped = scene_.timeline.now();
  gang.goes_on = true;
  int next = std::min(program.steps,
                      (gang.step / program.checkpoint_every + 1) * program.checkpoint_every);
  if (meets_misfortune(program, id) && gang.step < program.bad_step)
    next = std::min(next, program.bad_step);
  const Duration time = program.step_time * (next - gang.step);
  scene_.timeline.after(time, [this, id, next] { arrive(id, next); });
}

void Training::arrive(const AttemptId& id, int step) {
  Gang* gang = whole_gang(id);
  if (!gang) return;
  const Program& program = gang->program;
  const bool was_done = gang->step >= program.steps;
  gang->step = step;
  gang->stepped = scene_.timeline.now();
  gang->goes_on = false;
  if (meets_misfortune(program, id) && step == program.bad_step) return suffer(id, *gang);
  const bool done = step >= program.steps;
  if (!was_done && (done || step % program.checkpoint_every == 0)) {
    scene_.tell("ranks " + text(id), "step {} is safe", step);
    truth_.checkpointed(id, step);
  }
  if (done) return finish(id, *gang);
  go_on(id);
}

void Training::suffer(const AttemptId& id, Gang& gang) {
  const int rank = gang.program.bad_rank % gang.world_size;
  scene_.tell("ranks " + text(id), "rank {} {} after step {}", rank,
              name_of(gang.program.misfortune), gang.step);
  if (gang.program.misfortune == Misfortune::exits)
    gang.ranks.at(rank)({RankState::exited, 3});
  else if (gang.program.misfortune == Misfortune::crashes)
    gang.ranks.at(rank)({RankState::killed, SIGSEGV});
}

void Training::finish(const AttemptId& id, Gang& gang) {
  gang.done = true;
  for (const auto& [rank, end] : gang.ranks)
    end_later(id, rank, dice_.from_to(Duration(0), kEndSpread), {RankState::exited, 0});
}

Progress Training::progress(const AttemptId& id) const {
  const auto found = gangs_.find(id);
  if (found == gangs_.end()) return {};
  const Gang& gang = found->second;
  const Duration passed = scene_.timeline.now() - gang.stepped;
  const auto more = gang.goes_on ? passed / gang.program.step_time : 0;
  const int step = gang.step + static_cast<int>(more);
  if (step == gang.first_step) return {};
  return {step, passed - more * gang.program.step_time};
}

void Training::stop_stepping(Gang& gang) {
  if (!std::exchange(gang.goes_on, false)) return;
  const auto more = (scene_.timeline.now() - gang.stepped) / gang.program.step_time;
  gang.step += static_cast<int>(more);
  gang.stepped += more * gang.program.step_time;
}

void Training::end_later(const AttemptId& id, int rank, Duration delay, RankEnd how) {
  scene_.timeline.after(delay, [this, id, rank, how] {
    const auto found = gangs_.find(id);
    if (found == gangs_.end()) return;
    const auto there = found->second.ranks.find(rank);
    if (there == found->second.ranks.end()) return;
    const EndRank end = there->second;  // which leaves the gang
    end(how);
  });
}

}  // namespace lockstep::sim
