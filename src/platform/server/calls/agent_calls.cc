#include "platform/server/calls/agent_calls.h"

#include <algorithm>

#include "base/steady_clock.h"
#include "platform/server/calls/run_calls.h"
#include "platform/server/views.h"

namespace lockstep::server {
namespace {

Duration steady_now() { return MonotonicClock().since_boot(); }

// Each node brings telemetry all the time; it is no reason to call more often or to wake a reader.
bool has_reports(const api::Heartbeat& heartbeat) {
  return !std::ranges::all_of(heartbeat.items, [](const spool::TelemetryItem& item) {
    return item.kind == spool::TelemetryKind::telemetry;
  });
}

}  // namespace

Result<void> AgentCalls::heartbeat(const RouteCall<api::kHeartbeat>& call,
                                   const Reply<api::HeartbeatAnswer>& reply) {
  const api::Heartbeat& heartbeat = call.request;
  const model::NodeId node = TRY(node_of(call.path_parameters));
  const model::NodeName name{call.query.generation.value_or(""), node};
  if (heartbeat.node != text(node))
    return Error{Code::invalid,
                 format("node: '{}' is not the {} of the path", heartbeat.node, text(node))};
  batch_.add({name, heartbeat, reply});
  return {};
}

// The answer waits for a command that the agent does not execute yet.
void AgentCalls::answer_heartbeat(const HeartbeatCall& call, std::int64_t acknowledged) {
  const model::NodeName& name = call.node;
  const api::Heartbeat& heartbeat = call.heartbeat;
  if (model::has_node(context_.state(), name) && !is_refused(context_.state(), call))
    store_records(name.id, heartbeat);
  pace_.record_call(name, item_bytes(heartbeat), steady_now());
  // An agent that does not wait has more items than a call may bring.
  const bool has_news = has_reports(heartbeat) || heartbeat.wait_seconds == 0;
  const auto look = [this, name, acknowledged, has_news, reply = call.reply,
                     known = heartbeat.known_command, known_time_left = heartbeat.known_time_left,
                     incarnation = heartbeat.incarnation,
                     known_profile = heartbeat.profile.value_or(api::ProfileReport{}).request_id](
                        LongPolls::AttemptKind turn) {
    // An agent may call long after its run's end.
    if (const auto fetched = context_.controller().fetch(name.id.attempt.run); !fetched) {
      reply.send(fetched.error());
      return true;
    }
    const model::Command command = model::command_for(context_.state(), name, incarnation);
    const bool has_new_limit =
        known_time_left && command.time_left && command.time_left != known_time_left;
    const bool flight_wanted = is_flight_wanted(name);
    const auto profile = profile_order(name);
    const bool profile_wanted = profile && profile->request_id != known_profile;
    if (turn == LongPolls::AttemptKind::early && command.kind == known && !has_new_limit &&
        !flight_wanted && !profile_wanted && !streams_.has_news(name.id) &&
        !shells_.has_new_order(name))
      return reply.is_abandoned();
    auto answer = heartbeat_answer(command, acknowledged);
    answer.flight_wanted = flight_wanted;
    answer.profile = profile;
    answer.shell = shells_.order_for(name);
    shells_.mark_sent(name);
    if (model::has_node(context_.state(), name)) {
      answer.streams = streams_.orders_for(name.id);
      streams_.mark_sent(name.id);
    }
    answer.interval_seconds = in_seconds(pace_.interval(has_news));
    answer.batch_pause_seconds = in_seconds(pace_.batch_pause(steady_now()));
    reply.send(answer);
    return true;
  };
  agent_polls_.wait(name.id.attempt.run, from_seconds(heartbeat.wait_seconds), look);
}

void AgentCalls::tell_readers(const model::RunId& run, const api::Heartbeat& heartbeat,
                              bool has_lines) {
  bool has_points = false;
  for (const spool::TelemetryItem& item : heartbeat.items)
    (item.kind == spool::TelemetryKind::log ? has_lines : has_points) = true;
  events_.handle_reports(run, has_lines, has_points);
}

// Records of the ranks that are not kept in the store.
void AgentCalls::store_records(const model::NodeId& node, const api::Heartbeat& heartbeat) {
  const bool has_part = records_.unfinished.update(context_.state(), node, heartbeat.unfinished);
  bool is_new = has_part || has_reports(heartbeat);
  tell_readers(node.attempt.run, heartbeat, has_part);
  if (heartbeat.profile && records_.profiles.store(node, *heartbeat.profile)) is_new = true;
  if (heartbeat.flight) {
    records_.flight.store(context_.state().nodes.at(node), *heartbeat.flight);
    is_new = true;
  }
  if (is_new) long_polls_.notify(node.attempt.run);
}

std::optional<api::ProfileOrder> AgentCalls::profile_order(const model::NodeName& node) const {
  if (!model::has_node(context_.state(), node)) return std::nullopt;
  return records_.profiles.order_for(node.id);
}

bool AgentCalls::is_flight_wanted(const model::NodeName& node) {
  return model::has_node(context_.state(), node) &&
         records_.flight.is_wanted(context_.state().nodes.at(node.id));
}

// The run must be of this store: another one may have a run of that name.
Result<const model::Run*> AgentCalls::find_run_of_agent(
    const std::vector<std::string>& path_parameters, const api::HeartbeatQuery& query) const {
  const model::NodeId node = TRY(node_of(path_parameters));
  const model::Run* run = TRY(context_.find_run(node.attempt.run));
  if (model::has_node(context_.state(), {query.generation.value_or(""), node})) return run;
  return Error{Code::not_found, format("there is no node {}", text(node))};
}

Result<model::UploadManifest> AgentCalls::node_upload(const RouteCall<api::kNodeUpload>& call) {
  return TRY(uploads_of(context_))
      ->manifest_of(*TRY(find_run_of_agent(call.path_parameters, call.query)));
}

Result<api::UploadParts> AgentCalls::node_files(const RouteCall<api::kNodeFiles>& call) {
  return TRY(uploads_of(context_))
      ->parts_of(*TRY(find_run_of_agent(call.path_parameters, call.query)), call.request);
}

Result<void> AgentCalls::node_checkpoint(const RouteCall<api::kNodeCheckpoint>& call,
                                         const Reply<api::NodeCheckpoint>& reply) {
  const model::Run* run = TRY(find_run_of_agent(call.path_parameters, call.query));
  const model::NodeId node = TRY(node_of(call.path_parameters));
  return host_calls_.choose_checkpoint(*run, node.attempt, reply);
}

Result<void> AgentCalls::node_checkpoint_part(const RouteCall<api::kNodeCheckpointPart>& call,
                                              const Reply<api::CheckpointPart>& reply) {
  TRY(find_run_of_agent(call.path_parameters, call.query));
  const model::NodeId node = TRY(node_of(call.path_parameters));
  return host_calls_.send_checkpoint_part(node.attempt, call.request, reply);
}

Result<api::JoinAnswer> AgentCalls::join_host(const RouteCall<api::kJoinHost>& call) {
  return host_calls_.join(*call.caller.join, call.request);
}

Result<void> AgentCalls::host_report(const RouteCall<api::kHostReport>& call,
                                     const Reply<api::ServiceOrders>& reply) {
  return host_calls_.report(call.path_parameters.front(), call.request,
                            from_seconds(call.query.wait_seconds), reply);
}

Result<api::CollectAnswer> AgentCalls::collect(const RouteCall<api::kCollect>& call) {
  auto answer = TRY(host_calls_.collect(call.path_parameters.front(), call.request));
  if (answer.known)
    findings_.observe(TRY(model::parse_node_name(call.request.node)).id, call.request.items);
  return answer;
}

Result<api::RunFolders> AgentCalls::kept_files(const RouteCall<api::kKeptFiles>& call) {
  return host_calls_.kept_files(call.request);
}

Result<api::HostFilesTaken> AgentCalls::host_files(const RouteCall<api::kHostFiles>& call) {
  return host_calls_.take_files(call.path_parameters.front(), call.request);
}

}  // namespace lockstep::server
