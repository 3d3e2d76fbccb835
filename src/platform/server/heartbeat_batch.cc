#include "platform/server/heartbeat_batch.h"

#include <chrono>
#include <utility>

#include "platform/core/model/attempt.h"
#include "platform/server/views.h"

namespace lockstep::server {
namespace {

// Bounds how long one commit keeps the loop from other callers.
constexpr std::size_t kCallsAtOnce = 64;
constexpr std::size_t kBytesAtOnce = 1 << 20;
// The calls that arrive within it share a commit.
constexpr Duration kTurn = std::chrono::milliseconds(1);

}  // namespace

std::size_t item_bytes(const api::Heartbeat& heartbeat) {
  constexpr std::size_t kOverhead = 100;
  std::size_t sum = 0;
  for (const spool::TelemetryItem& item : heartbeat.items)
    sum += kOverhead + item.text.size() + kOverhead * item.values.size();
  return sum;
}

bool is_refused(const model::State& state, const HeartbeatCall& call) {
  return model::has_node(state, call.node) &&
         model::is_second_agent(state.nodes.at(call.node.id), call.heartbeat.incarnation);
}

void HeartbeatBatch::add(HeartbeatCall call) {
  if (calls_.empty()) turn_ = loop_.after(kTurn, [this] { run_turn(); });
  calls_.push_back(std::move(call));
}

void HeartbeatBatch::run_turn() {
  store(take());
  if (!calls_.empty()) turn_ = loop_.after(kTurn, [this] { run_turn(); });
}

void HeartbeatBatch::flush() {
  while (!calls_.empty()) store(take());
}

std::vector<HeartbeatCall> HeartbeatBatch::take() {
  std::vector<HeartbeatCall> taken;
  std::size_t bytes = 0;
  while (!calls_.empty() && taken.size() < kCallsAtOnce && bytes < kBytesAtOnce) {
    bytes += item_bytes(calls_.front().heartbeat);
    taken.push_back(std::move(calls_.front()));
    calls_.pop_front();
  }
  return taken;
}

// The reports first, so that an agent does not count as silent because its lines cannot be stored.
void HeartbeatBatch::store(std::vector<HeartbeatCall> calls) {
  std::vector<model::NodeReport> reports;
  for (const HeartbeatCall& call : calls) reports.push_back(node_report(call.node, call.heartbeat));
  const auto commands = controller_.report(reports);
  std::vector<HeartbeatCall> accepted;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (commands[i])
      accepted.push_back(std::move(calls[i]));
    else
      calls[i].reply.send(commands[i].error());
  }
  store_items(accepted);
}

// Items of an orphan belong to no run: its agent keeps them. Those of a refused agent are
// acknowledged, because it would stay until they are.
void HeartbeatBatch::store_items(const std::vector<HeartbeatCall>& calls) {
  const auto is_stored = [this](const HeartbeatCall& call) {
    return model::has_node(controller_.state(), call.node) &&
           !is_refused(controller_.state(), call);
  };
  std::vector<insight::Delivery> deliveries;
  for (const HeartbeatCall& call : calls)
    if (is_stored(call))
      deliveries.push_back(
          {call.node, call.heartbeat.items, host_share(controller_.state(), call.node.id)});
  const auto stored = insight_.ingest(deliveries);
  for (auto next = stored.begin(); const HeartbeatCall& call : calls) {
    const std::int64_t dropped =
        is_refused(controller_.state(), call) ? last_item_of(call.heartbeat) : 0;
    auto acknowledged = is_stored(call) ? *next++ : Result<std::int64_t>(dropped);
    if (is_stored(call) && acknowledged) findings_.observe(call.node.id, call.heartbeat.items);
    // Without room the agent keeps its items, and still gets its command.
    if (!acknowledged && acknowledged.error().code == Code::exhausted)
      acknowledged = insight_.ingest(call.node, {});
    if (acknowledged)
      stored_(call, *acknowledged);
    else
      call.reply.send(acknowledged.error());
  }
}

}  // namespace lockstep::server
