#include "platform/server/streams/stream_broker.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/format.h"
#include "net/crypto.h"
#include "platform/server/people/gate.h"

namespace lockstep::server {
namespace {

constexpr int kStreamIdBytes = 8;

Error no_upgrade() {
  return {Code::invalid, format("the call opens a stream: it needs the headers 'Connection: "
                                "Upgrade' and 'Upgrade: {}'",
                                api::kStreamProtocol)};
}

Error has_no_running_node(const model::Run& run) {
  const std::string id = text(run.id);
  if (model::is_final(run.state)) return {Code::invalid, format("{} has ended", id)};
  return {Code::invalid,
          format("{} does not run yet: `lockstep why {}` says what it waits for", id, id)};
}

std::string target_text(const api::StreamQuery& query) {
  return query.port ? format("port {}", *query.port) : "shell";
}

Result<void> check_query(const api::StreamQuery& query) {
  if (query.port.has_value() == query.shell.value_or(false))
    return Error{Code::invalid, "the query names either a port, or shell=true"};
  return {};
}

}  // namespace

StreamBroker::StreamBroker(net::Loop& loop, const ServerSetup& setup, Accounts& accounts,
                           AgentPolls& agents, const StreamLimits& limits)
    : loop_(loop), setup_(setup), accounts_(accounts), agents_(agents), limits_(limits) {
  check_rights();
}

Result<const model::Run*> StreamBroker::find_run(const model::RunId& id) const {
  TRY(setup_.controller.fetch(id));
  const auto& runs = setup_.controller.state().runs;
  const auto found = runs.find(id);
  if (found == runs.end()) return no_such_run(id);
  return &found->second;
}

// The node of the newest attempt.
Result<model::NodeId> StreamBroker::running_node(
    const std::vector<std::string>& path_parameters) const {
  const model::State& state = setup_.controller.state();
  const model::Run& run = *TRY(find_run(TRY(run_of(path_parameters))));
  if (model::is_external(run))
    return Error{Code::invalid, format("{} was started by {}: streams are to nodes that Lockstep "
                                       "starts",
                                       text(run.id), run.launcher)};
  const model::Attempt* attempt = model::live_attempt(state, run.id);
  if (attempt == nullptr) return has_no_running_node(run);
  const std::string& digits = path_parameters.at(2);
  int index = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), index);
  const auto node = state.nodes.find({attempt->id, index});
  if (node == state.nodes.end() || format("{}", index) != digits)
    return Error{Code::not_found, format("{} has no node {}; its nodes are 0 to {}", text(run.id),
                                         digits, run.spec.nodes - 1)};
  if (node->second.state != model::NodeState::running) return has_no_running_node(run);
  return node->first;
}

Result<void> StreamBroker::check_limits(const model::RunId& run) const {
  const auto of_run = of_run_.find(run);
  if (of_run != of_run_.end() && of_run->second >= limits_.of_run)
    return Error{Code::unavailable, format("{} has {} open streams, the most of a run; close some",
                                           text(run), limits_.of_run)};
  if (static_cast<int>(streams_.size()) >= limits_.of_daemon)
    return Error{
        Code::unavailable,
        format("the daemon has {} open streams, its most; try again later", limits_.of_daemon)};
  return {};
}

Result<void> StreamBroker::record(const RouteCall<api::kStream>& call, const model::NodeId& node) {
  model::AuditRecord record = record_of(call.caller, api::kStream, setup_.clock.now());
  record.target = text(node);
  record.project = node.attempt.run.project;
  record.after = target_text(call.query);
  return accounts_.record(record);
}

Result<void> StreamBroker::open(const RouteCall<api::kStream>& call,
                                const Reply<api::None>& reply) {
  if (!reply.can_upgrade(api::kStreamProtocol)) return no_upgrade();
  TRY(check_query(call.query));
  const model::NodeId node = TRY(running_node(call.path_parameters));
  TRY(check_limits(node.attempt.run));
  if (ended_) return Error{Code::unavailable, "the daemon stops; try again later"};
  TRY(record(call, node));
  const std::string id = net::random_hex(kStreamIdBytes);
  auto [entry, is_new] = streams_.try_emplace(
      id, Stream{.node = node,
                 .bearer = call.caller.bearer,
                 .order = {id, call.query.port.value_or(0), call.query.shell.value_or(false)},
                 .client = reply});
  entry->second.timeout = loop_.after(limits_.opening, [this, id] { expire(id); });
  ++of_run_[node.attempt.run];
  agents_.notify(node.attempt.run);
  return {};
}

Result<void> StreamBroker::connect(const RouteCall<api::kNodeStream>& call,
                                   const Reply<api::None>& reply) {
  if (!reply.can_upgrade(api::kStreamProtocol)) return no_upgrade();
  const model::NodeId node = TRY(node_of(call.path_parameters));
  const std::string& id = call.path_parameters.at(4);
  const auto found = streams_.find(id);
  const model::NodeName name{call.query.generation.value_or(""), node};
  if (found == streams_.end() || found->second.node != node || found->second.is_called ||
      !model::has_node(setup_.controller.state(), name))
    return Error{Code::not_found, format("{} has no stream {} that waits", text(node), id)};
  Stream& stream = found->second;
  if (stream.client.is_abandoned()) {
    erase(id);
    return Error{Code::not_found, format("the client of stream {} has gone", id)};
  }
  stream.is_called = true;
  reply.upgrade(api::kStreamProtocol, take_end(id, &Stream::agent_end));
  stream.client.upgrade(api::kStreamProtocol, take_end(id, &Stream::client_end));
  return {};
}

net::Responder::UseConnection StreamBroker::take_end(const std::string& id, End end) {
  return [this, id, end](net::UpgradedConnection connection) {
    const auto found = streams_.find(id);
    if (found == streams_.end()) return;
    Stream& stream = found->second;
    (stream.*end).emplace(std::move(connection));
    if (!stream.client_end || !stream.agent_end) return;
    stream.timeout.cancel();
    stream.splice.emplace(net::Splice::start(loop_, *std::exchange(stream.client_end, {}),
                                             *std::exchange(stream.agent_end, {}),
                                             [this, id] { erase(id); }));
  };
}

void StreamBroker::expire(const std::string& id) {
  const model::NodeId& node = streams_.at(id).node;
  end(id, {Code::timeout, format("the agent of {} did not open the stream within {}; `lockstep "
                                 "show {}` says how it is",
                                 text(node), text(limits_.opening), text(node.attempt.run))});
}

void StreamBroker::end(const std::string& id, const Error& reason) {
  const Stream& stream = streams_.at(id);
  if (!stream.is_called) stream.client.send(reason);
  erase(id);
}

void StreamBroker::erase(const std::string& id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  const auto count = of_run_.find(found->second.node.attempt.run);
  if (--count->second == 0) of_run_.erase(count);
  streams_.erase(found);
}

std::vector<api::StreamOrder> StreamBroker::orders_for(const model::NodeId& node) const {
  std::vector<api::StreamOrder> orders;
  if (!of_run_.contains(node.attempt.run)) return orders;
  for (const auto& [id, stream] : streams_)
    if (stream.node == node && !stream.is_called) orders.push_back(stream.order);
  return orders;
}

bool StreamBroker::has_news(const model::NodeId& node) const {
  return of_run_.contains(node.attempt.run) && std::ranges::any_of(streams_, [&](const auto& each) {
           return each.second.node == node && !each.second.is_called && !each.second.is_sent;
         });
}

void StreamBroker::mark_sent(const model::NodeId& node) {
  if (!of_run_.contains(node.attempt.run)) return;
  for (auto& [id, stream] : streams_)
    if (stream.node == node) stream.is_sent = true;
}

void StreamBroker::handle_change(const model::RunId& run) {
  if (!of_run_.contains(run)) return;
  const model::Attempt* attempt = model::live_attempt(setup_.controller.state(), run);
  std::vector<std::string> gone;
  for (const auto& [id, stream] : streams_)
    if (stream.node.attempt.run == run &&
        (attempt == nullptr || attempt->id != stream.node.attempt))
      gone.push_back(id);
  for (const std::string& id : gone) end(id, {Code::invalid, format("{} has ended", text(run))});
}

void StreamBroker::check_rights() {
  std::vector<std::string> gone;
  for (const auto& [id, stream] : streams_)
    if (!is_permitted(stream)) gone.push_back(id);
  for (const std::string& id : gone) end(id, {Code::denied, "the right to the stream has ended"});
  check_timer_ = loop_.after(limits_.check_interval, [this] { check_rights(); });
}

bool StreamBroker::is_permitted(const Stream& stream) const {
  const identity::Directory& directory = accounts_.directory();
  const identity::Bearer& bearer = stream.bearer;
  if (!bearer.token.empty()) {
    const auto token = directory.tokens.find(bearer.token);
    if (token == directory.tokens.end() ||
        (token->second.ends && *token->second.ends <= setup_.clock.now()))
      return false;
  }
  const auto& runs = setup_.controller.state().runs;
  const auto run = runs.find(stream.node.attempt.run);
  return run != runs.end() &&
         identity::may(directory, bearer, api::kStream.action,
                       {.project = run->first.project, .owner = run->second.origin.user});
}

void StreamBroker::finish() {
  ended_ = true;
  while (!streams_.empty())
    end(streams_.begin()->first, {Code::unavailable, "the daemon stops; try again later"});
}

}  // namespace lockstep::server
