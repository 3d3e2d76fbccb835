// The tables of the core's rows. A new field of a row is a line here, and a migration that adds its
// column (migrations.cc).
#pragma once

#include "platform/core/model/attempt.h"
#include "platform/core/model/operator_rows.h"
#include "platform/core/model/orphan.h"
#include "platform/core/model/run.h"
#include "platform/core/model/state.h"
#include "platform/store/table.h"

namespace lockstep::store {

// A rank with the key of its node.
struct RankRow {
  model::NodeId node;
  model::Rank rank;
};

// The stop request of an orphan; each daemon lists orphans itself.
struct OrphanRow {
  std::string node;
  Time stop_requested_at{};
};

// The table has one row.
template <class Row>
struct SingleRow {
  int only = 1;
  Row row{};
};

template <>
struct Table<model::Run> {
  using Run = model::Run;
  static constexpr std::string_view name = "runs";
  static std::string place(const Run& run) { return text(run.id); }
  static constexpr auto columns() {
    return std::tuple(
        key("project", [](auto& run) -> auto& { return run.id.project; }),
        key("number", [](auto& run) -> auto& { return run.id.number; }),
        fixed("generation", &Run::generation), fixed("spec", &Run::spec),
        fixed("origin", &Run::origin), fixed("submitted", &Run::submitted),
        empty_is_null(fixed("request_id", &Run::request_id)), column("state", &Run::state),
        column("reason", &Run::reason), column("version", &Run::version),
        column("epoch", &Run::epoch), column("queued", &Run::queued),
        column("started", &Run::started), column("ended", &Run::ended),
        column("time_used", &Run::time_used), column("extended", &Run::extended),
        column("charged", &Run::charged), column("user_exits", &Run::user_exits),
        column("losses", &Run::losses), column("moves", &Run::moves),
        column("stop_requested", &Run::stop_requested), column("not_before", &Run::not_before),
        column("priority", &Run::priority), column("held", &Run::held),
        column("awaits_dependencies", &Run::awaits_dependencies),
        column("awaits_budget", &Run::awaits_budget), column("audit", &Run::audit),
        column("fair_share_used", &Run::fair_share_used), fixed("launcher", &Run::launcher),
        fixed("job", &Run::job), fixed("project_kind", &Run::project_kind),
        column("tags", &Run::tags), column("note", &Run::note));
  }
};

template <>
struct Table<model::Attempt> {
  using Attempt = model::Attempt;
  static constexpr std::string_view name = "attempts";
  static std::string place(const Attempt& attempt) { return text(attempt.id); }
  static constexpr auto columns() {
    return std::tuple(key("project", [](auto& attempt) -> auto& { return attempt.id.run.project; }),
                      key("number", [](auto& attempt) -> auto& { return attempt.id.run.number; }),
                      key("epoch", [](auto& attempt) -> auto& { return attempt.id.epoch; }),
                      fixed("generation", &Attempt::generation), fixed("engine", &Attempt::engine),
                      fixed("is_placed", &Attempt::is_placed), fixed("lease", &Attempt::lease),
                      fixed("created", &Attempt::created), column("admitted", &Attempt::admitted),
                      column("state", &Attempt::state), column("cause", &Attempt::cause),
                      column("reason", &Attempt::reason), column("started", &Attempt::started),
                      column("draining", &Attempt::draining), column("ended", &Attempt::ended),
                      column("last_checkpoint", &Attempt::last_checkpoint),
                      column("last_checkpoint_step", &Attempt::last_checkpoint_step),
                      column("move_destination", &Attempt::move_destination),
                      column("charge", &Attempt::charge),
                      column("idle_warned", &Attempt::idle_warned));
  }
};

// `node` is the node's index in its attempt.
template <>
struct Table<model::Node> {
  using Node = model::Node;
  static constexpr std::string_view name = "nodes";
  static std::string place(const Node& node) { return text(node.id); }
  static constexpr auto columns() {
    return std::tuple(
        key("project", [](auto& node) -> auto& { return node.id.attempt.run.project; }),
        key("number", [](auto& node) -> auto& { return node.id.attempt.run.number; }),
        key("epoch", [](auto& node) -> auto& { return node.id.attempt.epoch; }),
        key("node", [](auto& node) -> auto& { return node.id.index; }), column("host", &Node::host),
        fixed("devices", &Node::devices), column("state", &Node::state),
        column("address", &Node::address), column("master_port", &Node::master_port),
        column("rendezvous_port", &Node::rendezvous_port), column("agent_pid", &Node::agent_pid),
        column("agents", &Node::agents), column("handle", &Node::handle),
        column("incarnation", &Node::incarnation), column("pending_reason", &Node::pending_reason),
        column("stop_reason", &Node::stop_reason), column("message", &Node::message),
        column("last_heartbeat", &Node::last_heartbeat),
        column("last_progress", &Node::last_progress),
        column("unreachable_since", &Node::unreachable_since),
        column("kill_requested_at", &Node::kill_requested_at),
        column("idle_since", &Node::idle_since), column("nccl_network", &Node::nccl_network));
  }
};

template <>
struct Table<RankRow> {
  static constexpr std::string_view name = "ranks";
  static std::string place(const RankRow& row) {
    return format("local rank {} of {}", row.rank.local_rank, text(row.node));
  }
  template <class Member>
  static constexpr auto rank(std::string_view column_name, Member model::Rank::* member) {
    return column(column_name, [member](auto& row) -> auto& { return row.rank.*member; });
  }
  static constexpr auto columns() {
    using Rank = model::Rank;
    return std::tuple(
        key("project", [](auto& row) -> auto& { return row.node.attempt.run.project; }),
        key("number", [](auto& row) -> auto& { return row.node.attempt.run.number; }),
        key("epoch", [](auto& row) -> auto& { return row.node.attempt.epoch; }),
        key("node", [](auto& row) -> auto& { return row.node.index; }),
        key("local_rank", [](auto& row) -> auto& { return row.rank.local_rank; }),
        rank("rank", &Rank::rank), rank("pid", &Rank::pid), rank("state", &Rank::state),
        rank("code", &Rank::code), rank("signalled_by_agent", &Rank::signalled_by_agent),
        rank("ended", &Rank::ended), rank("step", &Rank::step),
        rank("stalled_since", &Rank::stalled_since), rank("activity", &Rank::activity),
        rank("activity_since", &Rank::activity_since), rank("fault", &Rank::fault),
        rank("fault_rank", &Rank::fault_rank), rank("fault_text", &Rank::fault_text),
        rank("restarts", &Rank::restarts));
  }
};

template <>
struct Table<model::HostRow> {
  using Host = model::HostRow;
  static constexpr std::string_view name = "hosts";
  static std::string place(const Host& host) { return host.id; }
  static constexpr auto columns() {
    return std::tuple(key("id", &Host::id), column("state", &Host::state),
                      column("reason", &Host::reason), column("since", &Host::since),
                      column("audit", &Host::audit), column("losses", &Host::losses),
                      column("unavailable", &Host::unavailable), column("pod", &Host::pod),
                      column("facts", &Host::facts), column("next_facts", &Host::next_facts),
                      column("credential", &Host::credential), column("claim", &Host::claim),
                      column("machine", &Host::machine), column("joined", &Host::joined),
                      column("labels", &Host::labels));
  }
};

template <>
struct Table<model::LimitRow> {
  using Limit = model::LimitRow;
  static constexpr std::string_view name = "limits";
  static std::string place(const Limit& limit) { return limit.id.name; }
  static constexpr auto columns() {
    return std::tuple(key("scope", [](auto& limit) -> auto& { return limit.id.scope; }),
                      key("name", [](auto& limit) -> auto& { return limit.id.name; }),
                      column("devices", &Limit::devices), column("weight", &Limit::weight),
                      column("idle_stop", &Limit::idle_stop));
  }
};

template <>
struct Table<budget::Budget> {
  using Budget = budget::Budget;
  static constexpr std::string_view name = "budgets";
  static std::string place(const Budget& budget) { return budget.id; }
  static constexpr auto columns() {
    return std::tuple(key("project", &Budget::id), column("limited", &Budget::limited),
                      column("available", &Budget::available), column("held", &Budget::held),
                      column("spent", &Budget::spent), column("grants", &Budget::grants),
                      column("warned", &Budget::warned));
  }
};

template <>
struct Table<budget::Rate> {
  static constexpr std::string_view name = "rates";
  static std::string place(const budget::Rate& rate) { return rate.id; }
  static constexpr auto columns() {
    return std::tuple(key("kind", &budget::Rate::id),
                      column("weight_percent", &budget::Rate::weight_percent));
  }
};

template <>
struct Table<budget::Bucket> {
  using Bucket = budget::Bucket;
  static constexpr std::string_view name = "buckets";
  static std::string place(const Bucket& bucket) { return bucket.id; }
  static constexpr auto columns() {
    return std::tuple(key("project", &Bucket::id), column("level", &Bucket::level),
                      column("time", &Bucket::time), column("held", &Bucket::held),
                      column("spent", &Bucket::spent));
  }
};

template <>
struct Table<OrphanRow> {
  static constexpr std::string_view name = "orphans";
  static std::string place(const OrphanRow& orphan) { return orphan.node; }
  static constexpr auto columns() {
    return std::tuple(key("node", &OrphanRow::node),
                      column("stop_requested_at", &OrphanRow::stop_requested_at));
  }
};

template <>
struct Table<model::GivenUpNode> {
  using Node = model::GivenUpNode;
  static constexpr std::string_view name = "given_up_nodes";
  static std::string place(const Node& node) { return text(node.id); }
  static constexpr auto columns() {
    return std::tuple(
        key("project", [](auto& node) -> auto& { return node.id.attempt.run.project; }),
        key("number", [](auto& node) -> auto& { return node.id.attempt.run.number; }),
        key("epoch", [](auto& node) -> auto& { return node.id.attempt.epoch; }),
        key("node", [](auto& node) -> auto& { return node.id.index; }),
        column("generation", &Node::generation), column("engine", &Node::engine),
        column("devices", &Node::devices), column("since", &Node::since),
        column("last_call", &Node::last_call), column("gone_after", &Node::gone_after),
        column("kill_requested_at", &Node::kill_requested_at));
  }
};

template <>
struct Table<SingleRow<model::StoreRow>> {
  using Row = SingleRow<model::StoreRow>;
  static constexpr std::string_view name = "store";
  static std::string place(const Row&) { return "its row"; }
  static constexpr auto columns() {
    return std::tuple(key("only", &Row::only),
                      column("generation", [](auto& row) -> auto& { return row.row.generation; }),
                      column("issued", [](auto& row) -> auto& { return row.row.issued; }));
  }
};

template <>
struct Table<SingleRow<model::MeasuredRow>> {
  using Row = SingleRow<model::MeasuredRow>;
  static constexpr std::string_view name = "measured";
  static std::string place(const Row&) { return "its row"; }
  static constexpr auto columns() {
    return std::tuple(key("only", &Row::only),
                      column("measured", [](auto& row) -> auto& { return row.row.measured; }));
  }
};

template <>
struct Table<SingleRow<model::ClockRow>> {
  using Row = SingleRow<model::ClockRow>;
  static constexpr std::string_view name = "clock";
  static std::string place(const Row&) { return "its row"; }
  static constexpr auto columns() {
    return std::tuple(key("only", &Row::only),
                      column("boot", [](auto& row) -> auto& { return row.row.boot; }),
                      column("zero", [](auto& row) -> auto& { return row.row.zero; }));
  }
};

}  // namespace lockstep::store
