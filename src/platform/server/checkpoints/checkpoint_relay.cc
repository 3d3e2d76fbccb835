#include "platform/server/checkpoints/checkpoint_relay.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/log.h"

namespace lockstep::server {
namespace {

constexpr std::size_t kDecisionsMax = 256;
constexpr std::size_t kDamagedRunsMax = 256;

Result<api::NodeCheckpoint> answer_of(const Result<CheckpointChoice>& choice) {
  if (!choice) return choice.error();
  return choice->checkpoint;
}

}  // namespace

CheckpointRelay::SharedDecision CheckpointRelay::find(const model::AttemptId& attempt) const {
  const auto found =
      std::ranges::find(decisions_, attempt, [](const auto& d) { return d->attempt; });
  return found == decisions_.end() ? nullptr : *found;
}

void CheckpointRelay::choose(const model::AttemptId& attempt, const CheckpointSources& sources,
                             const Reply<api::NodeCheckpoint>& reply) {
  SharedDecision decision = find(attempt);
  if (!decision) decision = begin(attempt, sources);
  if (decision->choice) return reply.send(answer_of(*decision->choice));
  decision->waiting.push_back(reply);
  decide_if_all_answered(*decision);
}

CheckpointRelay::SharedDecision CheckpointRelay::begin(const model::AttemptId& attempt,
                                                       const CheckpointSources& sources) {
  const auto decision =
      std::make_shared<Decision>(Decision{.attempt = attempt, .generation = sources.generation});
  decision->known.silent = sources.away;
  decision->known.reported = sources.reported;
  if (const auto damaged = damaged_.find({sources.generation, text(sources.run)});
      damaged != damaged_.end())
    decision->known.damaged = damaged->second;
  decisions_.push_back(decision);
  if (decisions_.size() > kDecisionsMax) decisions_.pop_front();
  for (const std::string& host : sources.hosts) {
    if (sources.away.contains(host)) continue;
    ++decision->asked;
    orders_.order(host, {.generation = sources.generation, .run = text(sources.run)},
                  [decision, host](const Result<api::HostFileAnswer>& answer) {
                    if (answer)
                      decision->known.lists[host] = answer->checkpoints;
                    else
                      decision->known.silent[host] = answer.error().message;
                    --decision->asked;
                    decide_if_all_answered(*decision);
                  });
  }
  return decision;
}

void CheckpointRelay::decide_if_all_answered(Decision& decision) {
  if (decision.asked > 0) return;
  decision.choice = choose_checkpoint(decision.known);
  for (const auto& reply : std::exchange(decision.waiting, {}))
    reply.send(answer_of(*decision.choice));
}

Result<void> CheckpointRelay::send_part(const model::AttemptId& attempt,
                                        const api::CheckpointPartRequest& part,
                                        const Reply<api::CheckpointPart>& reply) {
  const SharedDecision decision = find(attempt);
  if (!decision || !decision->choice || !*decision->choice)
    return Error{Code::peer_lost, "the daemon was restarted while the files were sent"};
  const CheckpointChoice& choice = **decision->choice;
  const auto hosts = choice.hosts.find(part.name);
  if (part.step != choice.checkpoint.step || hosts == choice.hosts.end() || part.offset < 0)
    return Error{Code::invalid, format("name: '{}' of step {} is no file of the checkpoint from "
                                       "which {} goes on",
                                       part.name, part.step, text(attempt))};
  if (part.damaged) record_damage(*decision, part.name, *part.damaged);
  order_part(decision, part, reply);
  return {};
}

void CheckpointRelay::record_damage(Decision& decision, const std::string& name,
                                    const std::string& host) {
  CheckpointChoice& choice = **decision.choice;
  if (std::erase(choice.hosts.at(name), host) == 0) return;
  LS_LOG(warning, "{} of the checkpoint of step {} of {} is damaged on host {}", name,
         *choice.checkpoint.step, text(decision.attempt.run), host);
  const RunKey run{decision.generation, text(decision.attempt.run)};
  if (damaged_.size() >= kDamagedRunsMax && !damaged_.contains(run))
    damaged_.erase(damaged_.begin());
  damaged_[run].insert({*choice.checkpoint.step, choice.checkpoint.manifest, name, host});
}

// From one host after the other.
void CheckpointRelay::order_part(const SharedDecision& decision,
                                 const api::CheckpointPartRequest& part,
                                 const Reply<api::CheckpointPart>& reply) {
  const auto& hosts = (**decision->choice).hosts.at(part.name);
  if (hosts.empty())
    return reply.send(Error{Code::corrupt, format("no host has an undamaged {}; the next attempt "
                                                  "goes on from an earlier checkpoint",
                                                  part.name)});
  const std::string host = hosts.front();
  api::CheckpointPartRequest wanted = part;
  wanted.damaged.reset();
  orders_.order(host,
                {.generation = decision->generation,
                 .run = text(decision->attempt.run),
                 .part = std::move(wanted)},
                [this, decision, part, reply, host](const Result<api::HostFileAnswer>& answer) {
                  if (answer)
                    return reply.send(api::CheckpointPart{.bytes = answer->bytes, .host = host});
                  if (answer.error().code != Code::corrupt) return reply.send(answer.error());
                  LS_LOG(warning, "{}", answer.error().message);
                  record_damage(*decision, part.name, host);
                  order_part(decision, part, reply);
                });
}

}  // namespace lockstep::server
