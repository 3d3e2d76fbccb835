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
constexpr Duration kCutSpread = seconds(2);     // between the two that lose each other
constexpr Duration kGiveUpSpread = seconds(2);  // between the ends of peers that lose patience

RankEnd exit_with(int code) { return {.state = RankState::exited, .code = code}; }
RankEnd killed_by(int signal) { return {.state = RankState::killed, .code = signal}; }

bool meets_misfortune(const Program& program, const AttemptName& id) {
  return program.misfortune != Misfortune::none && id.id.epoch <= program.bad_attempts;
}

// Nobody can tell which of the ranks hangs that only make no step.
Blow blow_of(const Program& program, int rank) {
  const auto who = format("rank {} on host", rank);
  if (program.misfortune == Misfortune::exits) return {{Cause::user_exit}, who};
  if (program.misfortune == Misfortune::crashes) return {{Cause::rank_lost}, who};
  if (program.patience == Duration(0)) return {{Cause::hung}};
  return {{Cause::hung, Cause::user_exit, Cause::rank_lost}};
}

}  // namespace

void Training::join(const AttemptName& id, int rank, int world_size, const Program& program,
                    EndRank end) {
  Gang& gang = gangs_[id];
  gang.program = program;
  gang.world_size = world_size;
  gang.ranks.insert_or_assign(rank, std::move(end));
  if (std::ssize(gang.ranks) < world_size || gang.broken) return;
  gang.step = gang.first_step = truth_.checkpoint_of(id.id.run);
  scene_.tell("ranks " + text(id.id), "all {} meet and go on from step {}", world_size, gang.step);
  go_on(id);
}

void Training::leave(const AttemptName& id, int rank, bool well) {
  const auto found = gangs_.find(id);
  if (found == gangs_.end()) return;
  Gang& gang = found->second;
  gang.ranks.erase(rank);
  if (!well && !gang.broken && !gang.done && gang.program.notices_peers)
    for (const auto& [peer, end] : gang.ranks)
      end_later(id, peer, dice_.from_to(kNoticeLeast, kNoticeMost), echo_of(gang, peer));
  if (!well && !gang.broken) stop_stepping(gang, scene_.timeline.now());
  gang.broken = gang.broken || !well;
  if (gang.ranks.empty()) gangs_.erase(found);
}

void Training::hold(const AttemptName& id, int rank) {
  const auto found = gangs_.find(id);
  if (found == gangs_.end()) return;
  Gang& gang = found->second;
  gang.held.insert(rank);
  if (!gang.goes_on) return;
  stop_stepping(gang, scene_.timeline.now());
  lose_patience_later(id, gang);
}

void Training::let_go(const AttemptName& id, int rank) {
  const auto found = gangs_.find(id);
  if (found == gangs_.end()) return;
  found->second.held.erase(rank);
  const Gang* gang = whole_gang(id);
  if (gang && gang->held.empty() && !gang->done && !gang->stuck) go_on(id);
}

// One whose own connection was cut says so, whatever makes it notice.
RankEnd Training::echo_of(const Gang& gang, int rank) {
  const auto cut = gang.cut.find(rank);
  if (cut == gang.cut.end()) return exit_with(1);
  return {RankState::exited, 1, Fault::connection_lost, cut->second};
}

// Null once a rank is gone.
Training::Gang* Training::whole_gang(const AttemptName& id) {
  const auto found = gangs_.find(id);
  if (found == gangs_.end() || found->second.broken) return nullptr;
  return std::ssize(found->second.ranks) == found->second.world_size ? &found->second : nullptr;
}

// To the next step at which anything happens besides the step itself.
void Training::go_on(const AttemptName& id) {
  Gang& gang = gangs_.at(id);
  const Program& program = gang.program;
  gang.stepped = scene_.timeline.now();
  const std::int64_t plan = ++gang.plan;
  if (!gang.held.empty()) return lose_patience_later(id, gang);
  gang.goes_on = true;
  gang.next = std::min(program.steps,
                       (gang.step / program.checkpoint_every + 1) * program.checkpoint_every);
  if (meets_misfortune(program, id) && gang.step < program.bad_step)
    gang.next = std::min(gang.next, program.bad_step);
  const Duration time = program.step_time * (gang.next - gang.step);
  scene_.timeline.after(time, [this, id, plan] { arrive(id, plan); });
}

void Training::arrive(const AttemptName& id, std::int64_t plan) {
  Gang* gang = whole_gang(id);
  if (!gang || gang->plan != plan) return;
  const Program& program = gang->program;
  const bool was_done = gang->step >= program.steps;
  const int step = gang->step = gang->next;
  gang->stepped = scene_.timeline.now();
  gang->goes_on = false;
  if (meets_misfortune(program, id) && step == program.bad_step) return suffer(id, *gang);
  const bool done = step >= program.steps;
  if (!was_done && (done || step % program.checkpoint_every == 0)) {
    scene_.tell("ranks " + text(id.id), "step {} is safe", step);
    truth_.checkpointed(id, step);
    gang->saved = scene_.clock.now();
    gang->saved_step = step;
  }
  if (done) return finish(id, *gang);
  go_on(id);
}

void Training::suffer(const AttemptName& id, Gang& gang) {
  const Program& program = gang.program;
  const int rank = program.bad_rank % gang.world_size;
  scene_.tell("ranks " + text(id.id), "rank {} {} after step {}", rank, name_of(program.misfortune),
              gang.step);
  truth_.befalls(id, blow_of(program, rank));
  if (program.misfortune == Misfortune::exits) return gang.ranks.at(rank)(exit_with(3));
  if (program.misfortune == Misfortune::crashes) return gang.ranks.at(rank)(killed_by(SIGSEGV));
  gang.stuck = rank;
  lose_patience_later(id, gang);
}

// As collectives do whose time-out is over: they cannot tell who holds them up.
void Training::lose_patience_later(const AttemptName& id, const Gang& gang) {
  if (gang.program.patience == Duration(0)) return;
  scene_.timeline.after(gang.program.patience, [this, id, plan = gang.plan] {
    const Gang* held_up = whole_gang(id);
    if (held_up && held_up->plan == plan && !held_up->goes_on) give_up(id, *held_up);
  });
}

void Training::give_up(const AttemptName& id, const Gang& gang) {
  scene_.tell("ranks " + text(id.id), "lose patience: no step for {}",
              lockstep::text(gang.program.patience));
  const RankEnd how = dice_.percent(50) ? exit_with(1) : killed_by(SIGABRT);
  for (const auto& [rank, end] : gang.ranks)
    if (!gang.held.contains(rank) && gang.stuck != rank)
      end_later(id, rank, dice_.from_to(Duration(0), kGiveUpSpread), how);
}

void Training::finish(const AttemptName& id, Gang& gang) {
  gang.done = true;
  for (const auto& [rank, end] : gang.ranks)
    end_later(id, rank, dice_.from_to(Duration(0), kEndSpread), exit_with(0));
}

Progress Training::progress(const AttemptName& id) const {
  const auto found = gangs_.find(id);
  if (found == gangs_.end()) return {};
  const Gang& gang = found->second;
  const Duration passed = scene_.timeline.now() - gang.stepped;
  const auto more = gang.goes_on ? passed / gang.program.step_time : 0;
  const int step = gang.step + static_cast<int>(more);
  if (step == gang.first_step || !gang.program.reports) return {};
  return {step, passed - more * gang.program.step_time};
}

std::optional<Time> Training::saved(const AttemptName& id) const {
  const auto found = gangs_.find(id);
  if (found == gangs_.end() || !found->second.program.reports) return std::nullopt;
  return found->second.saved;
}

std::optional<std::int64_t> Training::saved_step(const AttemptName& id) const {
  const auto found = gangs_.find(id);
  if (found == gangs_.end() || !found->second.program.reports) return std::nullopt;
  return found->second.saved_step;
}

// Each finds out in its own time.
void Training::cut(const AttemptName& id, int one, int other) {
  Gang* gang = whole_gang(id);
  if (!gang || gang->done) return;
  truth_.befalls(id, {{Cause::rank_lost}, "the connection from rank"});
  stop_stepping(*gang, scene_.timeline.now());
  gang->cut = {{one, other}, {other, one}};
  for (const auto& [rank, peer] : gang->cut)
    end_later(id, rank, dice_.from_to(kNoticeLeast, kCutSpread), echo_of(*gang, rank));
}

// The step under way is not completed.
void Training::stop_stepping(Gang& gang, Duration now) {
  ++gang.plan;
  if (!std::exchange(gang.goes_on, false)) return;
  const auto whole = (now - gang.stepped) / gang.program.step_time;
  const auto more = std::clamp<std::int64_t>(gang.next - gang.step - 1, 0, whole);
  gang.step += static_cast<int>(more);
  gang.stepped += more * gang.program.step_time;
}

void Training::end_later(const AttemptName& id, int rank, Duration delay, RankEnd how) {
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
