#include "sim/world/sim_store.h"

#include <utility>

#include "map/query.h"

namespace lockstep::sim {
namespace {

std::string line_of(const model::Run* before, const model::Run& run) {
  if (before && before->state == run.state && before->reason == run.reason) return {};
  return format("{} is {}{}{}", text(run.id), text(run.state), run.reason.empty() ? "" : ": ",
                run.reason);
}

std::string line_of(const model::Attempt* before, const model::Attempt& attempt) {
  if (before && before->state == attempt.state && before->reason == attempt.reason) return {};
  return format("{} is {}{}{}", text(attempt.id), text(attempt.state),
                attempt.reason.empty() ? "" : ": ", attempt.reason);
}

std::string line_of(const model::Node* before, const model::Node& node) {
  if (before && before->state == node.state && before->kill_requested_at == node.kill_requested_at)
    return {};
  return format("{} on {} [{}] is {}{}", text(node.id), node.host, joined(node.devices, " "),
                text(node.state), node.kill_requested_at ? ", to be killed" : "");
}

template <class CommitView, class Row>
std::string line_of(const CommitView& rows, const Row& row) {
  const auto found = rows.find(row.id);
  return line_of(found == rows.end() ? nullptr : &found->second, row);
}

struct ChangeFormatter {
  const model::State& state;
  std::string operator()(const model::Run& run) const { return line_of(state.runs, run); }
  std::string operator()(const model::Attempt& row) const { return line_of(state.attempts, row); }
  std::string operator()(const model::Node& node) const { return line_of(state.nodes, node); }
  std::string operator()(const model::HostRow& host) const {
    const std::string facts =
        !host.facts ? "" : format(", has {} devices", map::device_count(*host.facts));
    return format("host {} is {}{}{}: {}", host.id, text(host.state), facts,
                  host.next_facts ? ", and next others" : "", model::placement_reason(host));
  }
  std::string operator()(const model::ClockRow&) const { return "what is counted in time goes on"; }
  std::string operator()(const model::LimitRow& limit) const {
    return format("{} may hold {} devices, and has a weight of {}", text(limit.id),
                  limit.devices ? format("{}", *limit.devices) : std::string("all"), limit.weight);
  }
  std::string operator()(const model::StoreRow& store) const {
    if (store.generation == state.store.generation) return {};
    return format("the store is of generation {}", store.generation);
  }
  std::string operator()(const model::MeasuredRow&) const { return "the map has measurements"; }
  std::string operator()(const model::AuditRecord& record) const {
    return format("{} did {} on {}", record.user, record.action, record.target);
  }
  std::string operator()(const model::Notice& notice) const {
    return format("users are told of {}", notice.run.empty() ? notice.project : notice.run);
  }
  std::string operator()(const budget::Budget& budget) const {
    return format("the project {} has {}, and holds {}", budget.id,
                  budget::in_device_minutes(budget.available),
                  budget::in_device_minutes(budget.held));
  }
  std::string operator()(const budget::Rate& rate) const {
    return format("devices of kind {} weigh {} %", rate.id, rate.weight_percent);
  }
  std::string operator()(const budget::Posting&) const { return {}; }
  std::string operator()(const budget::UsagePart&) const { return {}; }
  std::string operator()(const budget::Bucket& bucket) const {
    return format("the bucket of {} has {}, and holds {}", bucket.id,
                  budget::in_device_minutes(bucket.level), budget::in_device_minutes(bucket.held));
  }
  std::string operator()(const model::GivenUpNode& node) const {
    return format("{} on {} is {}", text(node.id), node.devices.host,
                  node.gone ? "gone" : "given up");
  }
  std::string operator()(const model::Orphan& orphan) const {
    return format("orphan {} on {} [{}] is {}", text(orphan.id), orphan.devices.host,
                  joined(orphan.devices.devices, " "),
                  orphan.terminated          ? "gone"
                  : orphan.stop_requested_at ? "to end"
                                             : "there");
  }
};

const Error kDead{Code::unavailable, "the daemon is dead"};
const Error kFull{Code::exhausted, "the disk is full"};

}  // namespace

// The store does not keep observations of orphans.
Result<model::State> SimStore::load() {
  model::drop_unstored_orphans(durable_);
  model::State state = durable_;
  model::drop_ended_runs(state, Time::max());  // their numbers stay known
  return state;
}

Result<std::optional<model::RunRows>> SimStore::find_run(const model::RunId& run) {
  if (!durable_.runs.contains(run)) return std::optional<model::RunRows>();
  return std::optional(model::rows_of(durable_, run));
}

Result<std::optional<model::RunId>> SimStore::find_request(const std::string& request_id) {
  const auto found = durable_.requests.find(request_id);
  return found == durable_.requests.end() ? std::nullopt : std::optional(found->second);
}

Result<std::vector<model::Run>> SimStore::list_runs(const model::RunFilter& filter) {
  return model::list_runs(durable_, filter);
}

Result<void> SimStore::remove_run(const model::RunRows& run, std::span<const model::Change>) {
  model::drop_ended_run(durable_, run.run.id);
  return {};
}

void SimStore::replace(model::State other) {
  model::State before = std::exchange(durable_, std::move(other));
  durable_.hosts_make_map = before.hosts_make_map;
  durable_.engine = before.engine;
  durable_.placing_engine = before.placing_engine;
  durable_.settings = before.settings;
  if (!durable_.hosts_make_map) durable_.map = before.map;
  model::drop_unstored_orphans(durable_);
  ++commits_;
  ++replaced_;
  truth_.store_replaced(before);
  copies_.push_back(std::move(before));
}

Result<void> SimStore::commit(std::span<const model::Change> changes) {
  if (!crash_points_.pass("before a commit")) return kDead;
  if (full_) {
    ++refusals_;
    return kFull;
  }
  if (context_.traced())
    for (const model::Change& change : changes) trace_change(change);
  truth_.check_commit(changes);
  for (const model::Change& change : changes) model::apply(durable_, change);
  ++commits_;
  crash_points_.pass("after a commit");
  return {};
}

Result<void> SimStore::check_writable() {
  if (!crash_points_.alive()) return kDead;
  if (full_) return kFull;
  return {};
}

void SimStore::trace_change(const model::Change& change) const {
  if (const auto line = std::visit(ChangeFormatter{durable_}, change); !line.empty())
    context_.trace("store", "{}", line);
}

}  // namespace lockstep::sim
