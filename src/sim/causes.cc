#include "sim/causes.h"

#include <algorithm>

namespace lockstep::sim {
namespace {

// Agents mind the time by their own clock, which runs from the start of their own ranks: at most
// since the attempt was made.
constexpr Duration kSlack = std::chrono::seconds(10);

std::string words_of(const Blow& blow) {
  std::vector<std::string> causes;
  for (Cause cause : blow.causes) causes.emplace_back(text(cause));
  return format("what befell it is {}{}{}", joined(causes, " or "), blow.who.empty() ? "" : " of ",
                blow.who);
}

}  // namespace

// Also of an attempt that the store does not know: it may be adopted. Of one that has ended nothing
// comes any more.
void Causes::befalls(const AttemptName& id, Blow blow) {
  const Attempt* attempt = known(id);
  if (attempt && attempt->state == AttemptState::ended) return;
  blow.at = scene_.timeline.now();
  const bool first = blows_.emplace(id, std::move(blow)).second;
  if (!first || (attempt && attempt->state == AttemptState::draining)) blur(id);
}

// Null: the store does not know it.
const Attempt* Causes::known(const AttemptName& id) const {
  const auto found = durable_.attempts.find(id.id);
  if (found == durable_.attempts.end() || found->second.generation != id.generation) return nullptr;
  return &found->second;
}

bool Causes::is(const Attempt& attempt, const Blow& blow) {
  return blow.causes.contains(attempt.cause) && attempt.reason.find(blow.who) != std::string::npos;
}

bool Causes::is_found(const AttemptName& id, std::string_view words) const {
  const Attempt* attempt = known(id);
  const auto blow = blows_.find(id);
  return attempt && attempt->state != AttemptState::ended && blow != blows_.end() &&
         is(*attempt, blow->second) && attempt->reason.find(words) != std::string::npos;
}

void Causes::rank_ended(const AttemptName& attempt) {
  first_end_.try_emplace(attempt, scene_.timeline.now());
}

void Causes::check(const Attempt& attempt) const {
  if (blurred_.contains(name_of(attempt))) return;
  const auto found = blows_.find(name_of(attempt));
  const Blow* blow = found == blows_.end() ? nullptr : &found->second;
  if (excuses(attempt, blow)) return;
  if (blow && is(attempt, *blow)) return;
  scene_.violate(format("{} ends with cause {} ({}), but {}", text(attempt.id), text(attempt.cause),
                        attempt.reason, blow ? words_of(*blow) : "it met no fault"));
}

// Ends that are judged elsewhere, and a time-out that came first.
bool Causes::excuses(const Attempt& attempt, const Blow* blow) const {
  if (attempt.cause == Cause::ok || attempt.cause == Cause::cancelled) return true;
  if (makes_room(attempt.cause)) return true;
  if (attempt.cause != Cause::timeout || !time_is_up(attempt)) return false;
  const auto end = first_end_.find(name_of(attempt));
  return !blow || end == first_end_.end() || end->second - blow->at <= blow->found;
}

bool Causes::time_is_up(const Attempt& attempt) const {
  const Run& run = durable_.runs.at(attempt.id.run);
  const auto launched = launched_.find(name_of(attempt));
  const Time begin = launched == launched_.end()
                         ? attempt.created
                         : std::min(attempt.created, scene_.clock.at(launched->second));
  return run.charged + (*attempt.draining - begin) + kSlack >= run.spec.timeout;
}

}  // namespace lockstep::sim
