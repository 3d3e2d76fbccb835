#include "platform/store/sql_store.h"

#include "base/format.h"
#include "text/convert.h"

namespace lockstep::store {
namespace {

using MaybeTime = std::optional<Time>;

template <class T>
std::string json_text(const T& value) {
  return dump_json(to_json(value));
}
template <class T>
Result<T> from_json_text(const std::string& words) {
  return from_json<T>(TRY(parse_json(words)));
}

struct RankRow {
  const model::NodeId& node;
  int local_rank;
};
std::string text(const RankRow& row) {
  return format("local rank {} of {}", row.local_rank, model::text(row.node));
}

struct NamedRow {
  const std::string& name;
};
const std::string& text(const NamedRow& row) { return row.name; }

// An unreadable value was damaged or changed by hand; the error gives its place.
template <class T, class RowId>
Result<T> column(std::string_view name, std::string_view table, const RowId& row, Result<T> value) {
  if (value) return value;
  return Error{Code::corrupt, format("table {}, {}, column {}: {}", table, text(row), name,
                                     value.error().message)};
}

// NULL for an empty one, so that only real ids must be unique.
std::optional<std::string> nullable(const std::string& words) {
  return words.empty() ? std::nullopt : std::optional(words);
}

Result<void> upsert(Database& db, const model::Run& run) {
  return db.execute(
      "insert into runs (project, number, spec, origin, state, reason, version, epoch, submitted, "
      "queued, started, ended, charged, user_exits, losses, stop_requested, not_before, "
      "request_id, priority, held, awaits_others, audit, moves, share, generation) values "
      "(:project, :number, "
      ":spec, "
      ":origin, :state, :reason, :version, :epoch, "
      ":submitted, :queued, :started, :ended, :charged, :user_exits, :losses, :stop_requested, "
      ":not_before, :request_id, :priority, :held, :awaits_others, :audit, :moves, :share, "
      ":generation) "
      "on conflict (project, number) do update set state = excluded.state, "
      "reason = excluded.reason, "
      "version = excluded.version, epoch = excluded.epoch, queued = excluded.queued, "
      "started = excluded.started, "
      "ended = excluded.ended, charged = excluded.charged, user_exits = excluded.user_exits, "
      "losses = excluded.losses, stop_requested = excluded.stop_requested, "
      "not_before = excluded.not_before, priority = excluded.priority, held = excluded.held, "
      "awaits_others = excluded.awaits_others, audit = excluded.audit, moves = excluded.moves, "
      "share = excluded.share",
      run.id.project, run.id.number, json_text(run.spec), json_text(run.origin), text(run.state),
      run.reason, run.version, run.epoch, run.submitted, run.queued, run.started, run.ended,
      run.time_used.count(), run.user_exits, run.losses, run.stop_requested, run.not_before,
      nullable(run.request_id), run.priority, run.held, run.awaits_dependencies,
      json_text(run.audit), run.moves, run.fair_share_used, run.generation);
}

Result<void> upsert(Database& db, const model::HostRow& host) {
  return db.execute(
      "insert into hosts (id, state, reason, since, audit, losses) values (:id, :state, :reason, "
      ":since, :audit, :losses) on conflict do update set state = excluded.state, reason = "
      "excluded.reason, "
      "since = excluded.since, audit = excluded.audit, losses = excluded.losses",
      host.id, text(host.state), host.reason, host.since, json_text(host.audit),
      json_text(host.losses));
}

Result<void> upsert(Database& db, const model::LimitRow& limit) {
  return db.execute(
      "insert into limits (scope, name, devices, weight) values (:scope, :name, :devices, :weight) "
      "on conflict do update set devices = excluded.devices, weight = excluded.weight",
      text(limit.id.scope), limit.id.name, limit.devices, limit.weight);
}

Result<void> upsert(Database& db, const model::StoreRow& store) {
  return db.execute(
      "insert into store (place, generation, minted) values (1, :generation, :minted) "
      "on conflict do update set generation = excluded.generation, minted = excluded.minted",
      store.generation, store.issued);
}

// Each daemon lists orphans itself; only stop requests are stored.
Result<void> upsert(Database& db, const model::Orphan& orphan) {
  if (orphan.terminated || !orphan.stop_requested_at)
    return db.execute("delete from orphans where node = :node", text(orphan.id));
  return db.execute(
      "insert into orphans (node, stopping) values (:node, :stopping) "
      "on conflict do update set stopping = excluded.stopping",
      text(orphan.id), *orphan.stop_requested_at);
}

Result<void> upsert(Database& db, const model::ClockRow& clock) {
  return db.execute(
      "insert into clock (only, boot, zero) values (1, :boot, :zero) "
      "on conflict do update set boot = excluded.boot, zero = excluded.zero",
      clock.boot, clock.zero);
}

Result<void> upsert(Database& db, const model::Attempt& attempt) {
  return db.execute(
      "insert into attempts (project, number, epoch, state, cause, reason, created, started, "
      "draining, ended, saved, saved_step, moves_to, generation) values (:project, :number, "
      ":epoch, :state, :cause, :reason, :created, :started, :draining, :ended, :saved, "
      ":saved_step, :moves_to, :generation) "
      "on conflict do update set state = excluded.state, "
      "cause = excluded.cause, reason = excluded.reason, started = excluded.started, "
      "draining = excluded.draining, ended = excluded.ended, saved = excluded.saved, "
      "saved_step = excluded.saved_step, moves_to = excluded.moves_to",
      attempt.id.run.project, attempt.id.run.number, attempt.id.epoch, text(attempt.state),
      text(attempt.cause), attempt.reason, attempt.created, attempt.started, attempt.draining,
      attempt.ended, attempt.last_checkpoint, attempt.last_checkpoint_step,
      json_text(attempt.move_destination), attempt.generation);
}

Result<void> put_rank(Database& db, const model::NodeId& node, const model::Rank& rank) {
  return db.execute(
      "insert into ranks (project, number, epoch, node, local_rank, rank, pid, state, code, "
      "signalled_by_us, ended, step, stalled_since, activity, activity_since, fault, fault_rank, "
      "fault_text, restarts) values (:project, :number, :epoch, :node, :local_rank, :rank, :pid, "
      ":state, :code, :signalled_by_us, :ended, :step, :stalled_since, :activity, "
      ":activity_since, :fault, :fault_rank, :fault_text, :restarts)",
      node.attempt.run.project, node.attempt.run.number, node.attempt.epoch, node.index,
      rank.local_rank, rank.rank, rank.pid, text(rank.state), rank.code, rank.signalled_by_agent,
      rank.ended, rank.step, rank.stalled_since, text(rank.activity), rank.activity_since,
      name_of(rank.fault), rank.fault_rank, rank.fault_text, rank.restarts);
}

Result<void> upsert(Database& db, const model::Node& node) {
  const auto& [attempt, index] = node.id;
  TRY(db.execute(
      "insert into nodes (project, number, epoch, node, host, devices, state, address, "
      "master_port, rendezvous_port, agent_pid, stop_reason, message, last_heard, killed) values "
      "(:project, "
      ":number, :epoch, :node, :host, :devices, :state, :address, :master_port, :rendezvous_port, "
      ":agent_pid, :stop_reason, :message, :last_heard, :killed) on conflict do update set "
      "state = excluded.state, address = excluded.address, master_port = excluded.master_port, "
      "rendezvous_port = excluded.rendezvous_port, agent_pid = excluded.agent_pid, "
      "stop_reason = excluded.stop_reason, message = excluded.message, last_heard = "
      "excluded.last_heard, killed = excluded.killed",
      attempt.run.project, attempt.run.number, attempt.epoch, index, node.host,
      json_text(node.devices), text(node.state), node.address, node.master_port,
      node.rendezvous_port, node.agent_pid, text(node.stop_reason), node.message,
      node.last_heartbeat, node.kill_requested_at));
  TRY(
      db.execute("delete from ranks where project = :project and number = :number and "
                 "epoch = :epoch and node = :node",
                 attempt.run.project, attempt.run.number, attempt.epoch, index));
  for (const model::Rank& rank : node.ranks) TRY(put_rank(db, node.id, rank));
  return {};
}

Result<void> load_runs(Database& db, model::State& state) {
  using Text = std::string;
  using Int = std::int64_t;
  for (auto& [project, number, spec, origin, run_state, reason, version, epoch, submitted, queued,
              started, ended, time_used, user_exits, losses, stop_requested, not_before, request_id,
              priority, held, awaits_dependencies, audit, moves, share, generation] :
       TRY(db.rows<Text, Int, Text, Text, Text, Text, Int, Int, Time, Time, MaybeTime, MaybeTime,
                   Int, int, int, bool, MaybeTime, std::optional<Text>, int, std::optional<Text>,
                   bool, Text, int, int, Text>(
           "select project, number, spec, origin, state, reason, version, epoch, submitted, "
           "queued, started, ended, charged, user_exits, losses, stop_requested, not_before, "
           "request_id, priority, held, awaits_others, audit, moves, share, generation from "
           "runs"))) {
    model::Run run;
    run.id = {project, number};
    run.spec = TRY(column("spec", "runs", run.id, from_json_text<model::RunSpec>(spec)));
    run.origin = TRY(column("origin", "runs", run.id, from_json_text<model::Origin>(origin)));
    run.state = TRY(column("state", "runs", run.id, parse_name<model::RunState>(run_state)));
    run.reason = reason;
    run.version = version;
    run.epoch = epoch;
    run.submitted = submitted;
    run.queued = queued;
    run.started = started;
    run.ended = ended;
    run.time_used = Duration(time_used);
    run.user_exits = user_exits;
    run.losses = losses;
    run.stop_requested = stop_requested;
    run.not_before = not_before;
    run.request_id = request_id.value_or("");
    run.priority = priority;
    run.held = held;
    run.awaits_dependencies = awaits_dependencies;
    run.audit =
        TRY(column("audit", "runs", run.id, from_json_text<std::vector<model::AuditEntry>>(audit)));
    run.moves = moves;
    run.fair_share_used = share;
    run.generation = generation;
    model::apply(state, run);
  }
  return {};
}

Result<void> load_attempts(Database& db, model::State& state) {
  using Text = std::string;
  using Int = std::int64_t;
  for (auto& [project, number, epoch, attempt_state, cause, reason, created, started, draining,
              ended, saved, saved_step, moves_to, generation] :
       TRY(db.rows<Text, Int, Int, Text, Text, Text, Time, MaybeTime, MaybeTime, MaybeTime,
                   MaybeTime, std::optional<Int>, Text, Text>(
           "select project, number, epoch, state, cause, reason, created, started, draining, "
           "ended, saved, saved_step, moves_to, generation from attempts"))) {
    model::Attempt attempt;
    attempt.id = {{project, number}, epoch};
    attempt.state = TRY(
        column("state", "attempts", attempt.id, parse_name<model::AttemptState>(attempt_state)));
    attempt.cause = TRY(column("cause", "attempts", attempt.id, parse_name<model::Cause>(cause)));
    attempt.reason = reason;
    attempt.created = created;
    attempt.started = started;
    attempt.draining = draining;
    attempt.ended = ended;
    attempt.last_checkpoint = saved;
    attempt.last_checkpoint_step = saved_step;
    attempt.move_destination =
        TRY(column("moves_to", "attempts", attempt.id,
                   from_json_text<std::vector<model::HostDevices>>(moves_to)));
    attempt.generation = generation;
    model::apply(state, attempt);
  }
  return {};
}

Result<void> load_nodes(Database& db, model::State& state) {
  using Text = std::string;
  using Int = std::int64_t;
  for (auto& [project, number, epoch, index, host, devices, node_state, address, master_port,
              rendezvous_port, agent_pid, stop_reason, message, last_heartbeat, killed] :
       TRY(db.rows<Text, Int, Int, int, Text, Text, Text, Text, int, int, Int, Text, Text, Time,
                   MaybeTime>(
           "select project, number, epoch, node, host, devices, state, address, master_port, "
           "rendezvous_port, agent_pid, stop_reason, message, last_heard, killed from nodes"))) {
    model::Node node;
    node.id = {{{project, number}, epoch}, index};
    node.host = host;
    node.devices =
        TRY(column("devices", "nodes", node.id, from_json_text<std::vector<int>>(devices)));
    node.state = TRY(column("state", "nodes", node.id, parse_name<model::NodeState>(node_state)));
    node.address = address;
    node.master_port = master_port;
    node.rendezvous_port = rendezvous_port;
    node.agent_pid = agent_pid;
    node.stop_reason =
        TRY(column("stop_reason", "nodes", node.id, parse_name<model::StopReason>(stop_reason)));
    node.message = message;
    node.last_heartbeat = last_heartbeat;
    node.kill_requested_at = killed;
    model::apply(state, node);
  }
  return {};
}

Result<void> load_ranks(Database& db, model::State& state) {
  using Text = std::string;
  using Int = std::int64_t;
  for (auto& [project, number, epoch, index, local_rank, rank_number, pid, rank_state, code, ours,
              ended, step, stalled_since, activity, activity_since, fault, fault_rank, fault_text,
              restarts] :
       TRY(db.rows<Text, Int, Int, int, int, int, Int, Text, int, bool, MaybeTime, Int, MaybeTime,
                   Text, MaybeTime, Text, int, Text, int>(
           "select project, number, epoch, node, local_rank, rank, pid, state, code, "
           "signalled_by_us, ended, step, stalled_since, activity, activity_since, fault, "
           "fault_rank, fault_text, restarts from ranks order by project, number, epoch, node, "
           "local_rank"))) {
    const model::NodeId node{{{project, number}, epoch}, index};
    const RankRow row{node, local_rank};
    model::Rank rank;
    rank.rank = rank_number;
    rank.local_rank = local_rank;
    rank.pid = pid;
    rank.state = TRY(column("state", "ranks", row, parse_name<model::RankState>(rank_state)));
    rank.code = code;
    rank.signalled_by_agent = ours;
    rank.ended = ended;
    rank.step = step;
    rank.stalled_since = stalled_since;
    rank.activity = TRY(column("activity", "ranks", row, parse_name<model::Activity>(activity)));
    rank.activity_since = activity_since;
    rank.fault = TRY(column("fault", "ranks", row, parse_name<report::Fault>(fault)));
    rank.fault_rank = fault_rank;
    rank.fault_text = fault_text;
    rank.restarts = restarts;
    const auto owner = state.nodes.find(node);
    if (owner == state.nodes.end())
      return Error{Code::corrupt, format("table ranks, {}: the table nodes has no {}", text(row),
                                         model::text(node))};
    owner->second.ranks.push_back(rank);
  }
  return {};
}

Result<void> load_hosts(Database& db, model::State& state) {
  using Text = std::string;
  for (auto& [id, host_state, reason, since, audit, losses] :
       TRY(db.rows<Text, Text, Text, Time, Text, Text>(
           "select id, state, reason, since, audit, losses from hosts"))) {
    model::HostRow host;
    host.id = id;
    host.state =
        TRY(column("state", "hosts", NamedRow{id}, parse_name<model::HostState>(host_state)));
    host.reason = reason;
    host.since = since;
    host.audit = TRY(column("audit", "hosts", NamedRow{id},
                            from_json_text<std::vector<model::AuditEntry>>(audit)));
    host.losses = TRY(column("losses", "hosts", NamedRow{id},
                             from_json_text<std::vector<model::HostLoss>>(losses)));
    model::apply(state, host);
  }
  return {};
}

Result<void> load_limits(Database& db, model::State& state) {
  using Text = std::string;
  for (auto& [scope, name, devices, weight] : TRY(db.rows<Text, Text, std::optional<int>, int>(
           "select scope, name, devices, weight from limits"))) {
    model::LimitRow limit;
    limit.id.scope =
        TRY(column("scope", "limits", NamedRow{name}, parse_name<model::LimitScope>(scope)));
    limit.id.name = name;
    limit.devices = devices;
    limit.weight = weight;
    model::apply(state, limit);
  }
  return {};
}

// Empty before the store's first daemon has set a generation.
Result<void> load_store(Database& db, model::State& state) {
  for (auto& [generation, issued] :
       TRY(db.rows<std::string, std::int64_t>("select generation, minted from store")))
    state.store = {generation, issued};
  return {};
}

Result<void> load_clock(Database& db, model::State& state) {
  for (auto& [boot, zero] : TRY(db.rows<std::string, Time>("select boot, zero from clock")))
    model::apply(state, model::ClockRow{boot, zero});
  return {};
}

Result<void> load_orphans(Database& db, model::State& state) {
  for (auto& [node, stopping] :
       TRY(db.rows<std::string, Time>("select node, stopping from orphans")))
    model::apply(state, model::Orphan{.id = TRY(column("node", "orphans", NamedRow{node},
                                                       model::parse_node_name(node))),
                                      .stop_requested_at = stopping});
  return {};
}

Result<void> load_all(Database& db, model::State& state) {
  TRY(load_runs(db, state));
  TRY(load_attempts(db, state));
  TRY(load_nodes(db, state));
  TRY(load_ranks(db, state));
  TRY(load_hosts(db, state));
  TRY(load_store(db, state));
  TRY(load_limits(db, state));
  TRY(load_orphans(db, state));
  return load_clock(db, state);
}

}  // namespace

Result<model::State> SqlStore::load() {
  model::State state;
  auto loaded = load_all(database_, state);
  if (!loaded)
    return std::move(loaded).error().with_context("loading the runs from " + database_.name());
  return state;
}

Result<void> SqlStore::commit(std::span<const model::Change> changes) {
  return database_.transaction([&]() -> Result<void> {
    for (const model::Change& change : changes)
      TRY(std::visit([&](const auto& row) { return upsert(database_, row); }, change));
    return {};
  });
}

Result<void> SqlStore::check_writable() {
  return database_.transaction(
      [&] { return database_.execute("update schema_version set version = version"); });
}

}  // namespace lockstep::store
