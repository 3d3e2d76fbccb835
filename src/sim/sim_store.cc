#include "sim/sim_store.h"

#include <utility>

namespace lockstep::sim {
namespace {

std::string line_of(const Run* before, const Run& run) {
  if (before && before->state == run.state && before->reason == run.reason) return {};
  return format("{} is {}{}{}", text(run.id), text(run.state), run.reason.empty() ? "" : ": ",
                run.reason);
}

std::string line_of(const Attempt* before, const Attempt& attempt) {
  if (before && before->state == attempt.state && before->reason == attempt.reason) return {};
  return format("{} is {}{}{}", text(attempt.id), text(attempt.state),
                attempt.reason.empty() ? "" : ": ", attempt.reason);
}

std::string line_of(const Node* before, const Node& node) {
  if (before && before->state == node.state && before->killed == node.killed) return {};
  return format("{} on {} [{}] is {}{}", text(node.id), node.host, joined(node.devices, " "),
                text(node.state), node.killed ? ", to be killed" : "");
}

template <class Rows, class Row>
std::string line_of(const Rows& rows, const Row& row) {
  const auto found = rows.find(row.id);
  return line_of(found == rows.end() ? nullptr : &found->second, row);
}

struct Teller {
  const State& state;
  std::string operator()(const Run& run) const { return line_of(state.runs, run); }
  std::string operator()(const Attempt& row) const { return line_of(state.attempts, row); }
  std::string operator()(const Node& node) const { return line_of(state.nodes, node); }
  std::string operator()(const HostRow& host) const {
    return format("host {} is {}: {}", host.id, text(host.state), host.reason);
  }
  std::string operator()(const ClockRow&) const { return "what is counted in time goes on"; }
  std::string operator()(const LimitRow& limit) const {
    return format("{} may hold {} devices, and has a weight of {}", text(limit.id),
                  limit.devices ? format("{}", *limit.devices) : std::string("all"), limit.weight);
  }
  std::string operator()(const StoreRow& store) const {
    if (store.generation == state.store.generation) return {};
    return format("the store is of generation {}", store.generation);
  }
  std::string operator()(const Orphan& orphan) const {
    return format("orphan {} on {} [{}] is {}", text(orphan.id), orphan.slice.host,
                  joined(orphan.slice.devices, " "),
                  orphan.gone       ? "gone"
                  : orphan.stopping ? "to end"
                                    : "there");
  }
};

const Error kDead{Code::unavailable, "the daemon is dead"};
const Error kFull{Code::exhausted, "the disk is full"};

}  // namespace

// What was seen of orphans is not stored.
Result<State> SimStore::load() {
  forget_sightings(durable_);
  return durable_;
}

void SimStore::replace(State other) {
  State before = std::exchange(durable_, std::move(other));
  forget_sightings(durable_);
  ++commits_;
  ++replaced_;
  truth_.store_replaced(before);
  copies_.push_back(std::move(before));
}

Result<void> SimStore::commit(std::span<const Change> changes) {
  if (!life_.pass("before a commit")) return kDead;
  if (full_) {
    ++refusals_;
    return kFull;
  }
  if (scene_.traced())
    for (const Change& change : changes) tell(change);
  truth_.committing(changes);
  for (const Change& change : changes) apply(durable_, change);
  ++commits_;
  life_.pass("after a commit");
  return {};
}

Result<void> SimStore::probe() {
  if (!life_.alive()) return kDead;
  if (full_) return kFull;
  return {};
}

void SimStore::tell(const Change& change) const {
  if (const auto line = std::visit(Teller{durable_}, change); !line.empty())
    scene_.tell("store", "{}", line);
}

}  // namespace lockstep::sim
