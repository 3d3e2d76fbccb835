#include "sim/world/training.h"

#include <algorithm>
#include <csignal>

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kEndSpread = milliseconds(300);  // between the ends of ranks that are done
constexpr Duration kPeerLossNoticeMin = milliseconds(50);  // from a peer's death to the echo
constexpr Duration kPeerLossNoticeMax = seconds(5);
constexpr Duration kCutSpread = seconds(2);     // between the two that lose each other
constexpr Duration kGiveUpSpread = seconds(2);  // between the ends of peers that lose patience

RankEnd exit_with(int code) { return {.state = model::RankState::exited, .code = code}; }
RankEnd killed_by(int signal) { return {.state = model::RankState::killed, .code = signal}; }

bool has_fault(const Program& program, const model::AttemptName& id) {
  return program.fault != ProgramFault::none && id.id.epoch <= program.faulty_attempts;
}

// If several ranks make no step, the rank that causes the hang is unknown.
InjectedFault injected_fault_of(const Program& program, int rank) {
  const auto who = format("rank {} on host", rank);
  if (program.fault == ProgramFault::exits) return {{model::Cause::user_exit}, who};
  if (program.fault == ProgramFault::crashes) return {{model::Cause::rank_lost}, who};
  if (program.step_timeout == Duration(0)) return {{model::Cause::hung}};
  return {{model::Cause::hung, model::Cause::user_exit, model::Cause::rank_lost}};
}

}  // namespace

void Training::join(const model::AttemptName& id, int rank, int world_size, const Program& program,
                    EndRank end) {
  Gang& gang = gangs_[id];
  gang.program = program;
  gang.world_size = world_size;
  gang.ranks.insert_or_assign(rank, std::move(end));
  if (std::ssize(gang.ranks) < world_size || gang.broken) return;
  gang.step = gang.first_step = truth_.checkpoint_of(id.id.run);
  context_.trace("ranks " + text(id.id), "all {} meet and go on from step {}", world_size,
                 gang.step);
  plan_next_step(id);
}

void Training::leave(const model::AttemptName& id, int rank, bool well) {
  const auto found = gangs_.find(id);
  if (found == gangs_.end()) return;
  Gang& gang = found->second;
  gang.ranks.erase(rank);
  if (!well && !gang.broken && !gang.done && gang.program.exits_on_peer_loss)
    for (const auto& [peer, end] : gang.ranks)
      end_later(id, peer, random_.from_to(kPeerLossNoticeMin, kPeerLossNoticeMax),
                peer_loss_end_of(gang, peer));
  if (!well && !gang.broken) stop_stepping(gang, context_.timeline.now());
  gang.broken = gang.broken || !well;
  if (gang.ranks.empty()) gangs_.erase(found);
}

void Training::suspend(const model::AttemptName& id, int rank) {
  const auto found = gangs_.find(id);
  if (found == gangs_.end()) return;
  Gang& gang = found->second;
  gang.suspended.insert(rank);
  if (!gang.stepping) return;
  stop_stepping(gang, context_.timeline.now());
  plan_step_timeout(id, gang);
}

void Training::resume(const model::AttemptName& id, int rank) {
  const auto found = gangs_.find(id);
  if (found == gangs_.end()) return;
  found->second.suspended.erase(rank);
  const Gang* gang = whole_gang(id);
  if (gang && gang->suspended.empty() && !gang->done && !gang->stuck) plan_next_step(id);
}

// A rank whose own connection was cut reports that, whatever makes it notice.
RankEnd Training::peer_loss_end_of(const Gang& gang, int rank) {
  const auto cut = gang.cut_peers.find(rank);
  if (cut == gang.cut_peers.end()) return exit_with(1);
  return {model::RankState::exited, 1, report::Fault::connection_lost, cut->second};
}

// Null once a rank is gone.
Training::Gang* Training::whole_gang(const model::AttemptName& id) {
  const auto found = gangs_.find(id);
  if (found == gangs_.end() || found->second.broken) return nullptr;
  return std::ssize(found->second.ranks) == found->second.world_size ? &found->second : nullptr;
}

// Plans the next step at which anything happens besides the step itself.
void Training::plan_next_step(const model::AttemptName& id) {
  Gang& gang = gangs_.at(id);
  const Program& program = gang.program;
  gang.last_step_time = context_.timeline.now();
  const std::int64_t plan = ++gang.plan;
  if (!gang.suspended.empty()) return plan_step_timeout(id, gang);
  gang.stepping = true;
  gang.next = std::min(program.steps,
                       (gang.step / program.checkpoint_every + 1) * program.checkpoint_every);
  if (has_fault(program, id) && gang.step < program.fault_step)
    gang.next = std::min(gang.next, program.fault_step);
  const Duration time = program.step_time * (gang.next - gang.step);
  context_.timeline.after(time, [this, id, plan] { complete_step(id, plan); });
}

void Training::complete_step(const model::AttemptName& id, std::int64_t plan) {
  Gang* gang = whole_gang(id);
  if (!gang || gang->plan != plan) return;
  const Program& program = gang->program;
  const bool was_done = gang->step >= program.steps;
  const int step = gang->step = gang->next;
  gang->last_step_time = context_.timeline.now();
  gang->stepping = false;
  if (has_fault(program, id) && step == program.fault_step) return inject_program_fault(id, *gang);
  const bool done = step >= program.steps;
  if (!was_done && (done || step % program.checkpoint_every == 0)) {
    context_.trace("ranks " + text(id.id), "step {} is safe", step);
    truth_.checkpointed(id, step);
    gang->saved = context_.clock.now();
    gang->saved_step = step;
  }
  if (done) return finish(id, *gang);
  plan_next_step(id);
}

void Training::inject_program_fault(const model::AttemptName& id, Gang& gang) {
  const Program& program = gang.program;
  const int rank = program.fault_rank % gang.world_size;
  context_.trace("ranks " + text(id.id), "rank {} {} after step {}", rank, name_of(program.fault),
                 gang.step);
  truth_.record_fault(id, injected_fault_of(program, rank));
  if (program.fault == ProgramFault::exits) return gang.ranks.at(rank)(exit_with(3));
  if (program.fault == ProgramFault::crashes) return gang.ranks.at(rank)(killed_by(SIGSEGV));
  gang.stuck = rank;
  plan_step_timeout(id, gang);
}

// Models a collective's time-out: the ranks do not know which rank causes it.
void Training::plan_step_timeout(const model::AttemptName& id, const Gang& gang) {
  if (gang.program.step_timeout == Duration(0)) return;
  context_.timeline.after(gang.program.step_timeout, [this, id, plan = gang.plan] {
    const Gang* held_up = whole_gang(id);
    if (held_up && held_up->plan == plan && !held_up->stepping) end_by_step_timeout(id, *held_up);
  });
}

void Training::end_by_step_timeout(const model::AttemptName& id, const Gang& gang) {
  context_.trace("ranks " + text(id.id), "lose patience: no step for {}",
                 lockstep::text(gang.program.step_timeout));
  const RankEnd how = random_.percent(50) ? exit_with(1) : killed_by(SIGABRT);
  for (const auto& [rank, end] : gang.ranks)
    if (!gang.suspended.contains(rank) && gang.stuck != rank)
      end_later(id, rank, random_.from_to(Duration(0), kGiveUpSpread), how);
}

void Training::finish(const model::AttemptName& id, Gang& gang) {
  gang.done = true;
  for (const auto& [rank, end] : gang.ranks)
    end_later(id, rank, random_.from_to(Duration(0), kEndSpread), exit_with(0));
}

Progress Training::progress(const model::AttemptName& id) const {
  const auto found = gangs_.find(id);
  if (found == gangs_.end()) return {};
  const Gang& gang = found->second;
  const Duration passed = context_.timeline.now() - gang.last_step_time;
  const auto more = gang.stepping ? passed / gang.program.step_time : 0;
  const int step = gang.step + static_cast<int>(more);
  if (step == gang.first_step || !gang.program.reports_steps) return {};
  return {step, passed - more * gang.program.step_time};
}

std::optional<Time> Training::last_checkpoint(const model::AttemptName& id) const {
  const auto found = gangs_.find(id);
  if (found == gangs_.end() || !found->second.program.reports_steps) return std::nullopt;
  return found->second.saved;
}

std::optional<std::int64_t> Training::last_checkpoint_step(const model::AttemptName& id) const {
  const auto found = gangs_.find(id);
  if (found == gangs_.end() || !found->second.program.reports_steps) return std::nullopt;
  return found->second.saved_step;
}

// Each of the two notices at its own time.
void Training::cut_connection(const model::AttemptName& id, int one, int other) {
  Gang* gang = whole_gang(id);
  if (!gang || gang->done) return;
  truth_.record_fault(id, {{model::Cause::rank_lost}, "the connection from rank"});
  stop_stepping(*gang, context_.timeline.now());
  gang->cut_peers = {{one, other}, {other, one}};
  for (const auto& [rank, peer] : gang->cut_peers)
    end_later(id, rank, random_.from_to(kPeerLossNoticeMin, kCutSpread),
              peer_loss_end_of(*gang, rank));
}

// The step in progress is not completed.
void Training::stop_stepping(Gang& gang, Duration now) {
  ++gang.plan;
  if (!std::exchange(gang.stepping, false)) return;
  const auto whole = (now - gang.last_step_time) / gang.program.step_time;
  const auto more = std::clamp<std::int64_t>(gang.next - gang.step - 1, 0, whole);
  gang.step += static_cast<int>(more);
  gang.last_step_time += more * gang.program.step_time;
}

void Training::end_later(const model::AttemptName& id, int rank, Duration delay, RankEnd how) {
  context_.timeline.after(delay, [this, id, rank, how] {
    const auto found = gangs_.find(id);
    if (found == gangs_.end()) return;
    const auto there = found->second.ranks.find(rank);
    if (there == found->second.ranks.end()) return;
    const EndRank end = there->second;  // which leaves the gang
    end(how);
  });
}

}  // namespace lockstep::sim
