#include "platform/server/host_calls.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "map/query.h"
#include "net/crypto.h"
#include "platform/controller/host_reports.h"
#include "platform/core/model/map_of_hosts.h"
#include "platform/host/node_files.h"
#include "platform/server/views.h"

namespace lockstep::server {
namespace {

constexpr Duration kJoinTokenLife = std::chrono::hours(1);
constexpr Duration kOrdersWaitMax = std::chrono::seconds(60);

const model::HostRow* row_of(const model::State& state, const std::string& host) {
  const auto row = state.hosts.find(host);
  return row == state.hosts.end() ? nullptr : &row->second;
}

// A program may also write its checkpoints to a folder of its own choice, such as a shared one.
bool is_in_folder_of_host(const api::Checkpoint& saved, const model::Run& run) {
  const auto folder = host::default_checkpoint_folder("/", run.generation, run.id);
  return std::filesystem::path(saved.path).parent_path().string().ends_with(folder.string());
}

}  // namespace

HostCalls::HostCalls(net::Loop& loop, const ServerSetup& setup)
    : loop_(loop),
      setup_(setup),
      file_orders_(loop, [this](const std::string& host) { answer_soon(host); }),
      checkpoints_(file_orders_) {
  if (setup_.hosts_engine != nullptr)
    setup_.hosts_engine->on_new_orders([this](const std::string& host) { answer_soon(host); });
}

Result<engine::HostsEngine*> HostCalls::engine() const {
  if (setup_.hosts_engine != nullptr) return setup_.hosts_engine;
  return Error{Code::invalid,
               "this daemon runs everything on its own machine; start it by `lockstep serve "
               "--engine hosts` for a cluster of machines that join"};
}

Result<api::JoinTokenAnswer> HostCalls::make_token(const std::string& host,
                                                   const api::JoinTokenRequest& request) const {
  TRY(engine());
  TRY(model::check_name("a host", host));
  const map::ClusterMap& map = setup_.controller.state().map;
  if (model::is_host_of_other_engine(map, host))
    return Error{Code::invalid, format("the engine {} has a host '{}': choose another name",
                                       map::engine_of(map, host), host)};
  const std::string pod = request.pod.value_or(std::string(model::kDefaultPod));
  TRY(model::check_name("a pod", pod));
  const model::HostRow* const row = row_of(setup_.controller.state(), host);
  host::JoinToken token{
      .host = host,
      .pod = pod,
      .number = row == nullptr ? 0 : row->credential,
      .end = std::chrono::floor<std::chrono::seconds>(setup_.clock.now() + kJoinTokenLife),
      .proof = {}};
  token.proof = setup_.keys.join_proof(token);
  return api::JoinTokenAnswer{.token = host::join_token_text(token), .end = token.end};
}

Result<api::JoinAnswer> HostCalls::join(const host::JoinToken& token,
                                        const api::JoinRequest& request) {
  TRY(engine());
  TRY(setup_.controller.apply_operator_event(
      model::AdmitHost{.host = token.host,
                       .pod = token.pod,
                       .credential = token.number,
                       .claim = net::sha256_hex(request.claim),
                       .machine = request.machine}));
  const model::HostRow* const row = row_of(setup_.controller.state(), token.host);
  LS_LOG(info, "host {} has joined", token.host);
  return api::JoinAnswer{.credential = setup_.keys.host_token(token.host, row->credential)};
}

Result<void> HostCalls::remove(const model::RemoveHost& removal, const model::AuditRecord& record) {
  engine::HostsEngine* const hosts = TRY(engine());
  TRY(controller::remove_host(setup_.controller, *hosts, removal, record));
  LS_LOG(info, "host {} was removed", removal.host);
  return {};
}

Result<void> HostCalls::declare_dead(const model::HostDead& death,
                                     const model::AuditRecord& record) {
  engine::HostsEngine* const hosts = TRY(engine());
  TRY(setup_.controller.apply_operator_event(death, record));
  hosts->presume_dead(death.host);
  LS_LOG(info, "host {} was declared dead by {}", death.host,
         death.by.empty() ? "a user" : death.by);
  return {};
}

Result<void> HostCalls::report(const std::string& host, const api::ServiceReport& report,
                               Duration wait, const OrdersReply& reply) {
  engine::HostsEngine* const hosts = TRY(engine());
  controller::take_host_report(setup_.controller, *hosts, host, report);
  if (ended_ || wait <= Duration(0) || hosts->has_new_orders(host) || file_orders_.has_new(host)) {
    reply.send(orders(host));
    return {};
  }
  if (waiting_.contains(host)) answer(host);  // the host has made a newer call
  waiting_.emplace(host, WaitingCall{reply, loop_.after(std::min(wait, kOrdersWaitMax),
                                                        [this, host] { answer(host); })});
  return {};
}

// A node of another host keeps its items.
Result<api::CollectAnswer> HostCalls::collect(const std::string& host,
                                              const api::CollectRequest& request) {
  const model::NodeName name = TRY(model::parse_node_name(request.node));
  TRY(setup_.controller.fetch(name.id.attempt.run));
  const model::State& state = setup_.controller.state();
  if (!model::has_node(state, name) || state.nodes.at(name.id).host != host)
    return api::CollectAnswer{};
  const insight::Delivery delivery{name, request.items, host_share(state, name.id)};
  auto stored = setup_.insight.ingest({&delivery, 1});
  const std::int64_t acknowledged = TRY(std::move(stored.front()));
  return api::CollectAnswer{.acknowledged = acknowledged, .known = true};
}

Result<api::RunFolders> HostCalls::kept_files(const api::RunFolders& question) {
  constexpr std::size_t kFoldersMax = 1000;
  if (question.folders.size() > kFoldersMax)
    return Error{Code::invalid, format("folders: {} at most", kFoldersMax)};
  api::RunFolders answer = question;
  for (api::RunFolder& folder : answer.folders) folder.kept = TRY(kept_files_of(folder));
  return answer;
}

// A run that this store made and does not have was removed. Files of another store stay.
Result<api::KeptFiles> HostCalls::kept_files_of(const api::RunFolder& folder) {
  const model::RunId id = TRY(model::parse_run_id(folder.run));
  TRY(setup_.controller.fetch(id));
  const model::State& state = setup_.controller.state();
  const auto run = state.runs.find(id);
  if (run == state.runs.end()) {
    const auto highest = state.numbers.find(id.project);
    const bool was_removed = folder.generation == state.store.generation &&
                             highest != state.numbers.end() && id.number <= highest->second;
    return was_removed ? api::KeptFiles::none : api::KeptFiles::all;
  }
  const bool has_expired = model::is_final(run->second.state) && run->second.ended &&
                           setup_.has_expired && TRY(setup_.has_expired(id, *run->second.ended));
  return has_expired ? api::KeptFiles::checkpoints : api::KeptFiles::all;
}

// --- Files of checkpoints ---

Result<api::HostFilesTaken> HostCalls::take_files(const std::string& host,
                                                  const api::HostFileAnswers& answers) {
  return api::HostFilesTaken{.answers = file_orders_.take(host, answers.answers)};
}

Result<void> HostCalls::choose_checkpoint(const model::Run& run, const model::AttemptId& attempt,
                                          const Reply<api::NodeCheckpoint>& reply) {
  checkpoints_.choose(attempt, TRY(checkpoint_sources(run)), reply);
  return {};
}

Result<void> HostCalls::send_checkpoint_part(const model::AttemptId& attempt,
                                             const api::CheckpointPartRequest& part,
                                             const Reply<api::CheckpointPart>& reply) {
  return checkpoints_.send_part(attempt, part, reply);
}

Result<CheckpointSources> HostCalls::checkpoint_sources(const model::Run& run) const {
  const auto listed = TRY(TRY(engine())->list());
  std::set<std::string> hosts;
  for (std::int64_t epoch = 1; epoch <= run.epoch; ++epoch)
    for (const model::Node* node : model::nodes_of(setup_.controller.state(), {run.id, epoch}))
      if (!node->host.empty()) hosts.insert(node->host);
  CheckpointSources sources{.run = run.id, .generation = run.generation};
  for (const std::string& host : hosts) {
    sources.hosts.push_back(host);
    if (auto reason = listed.why_unavailable(host); !reason.empty())
      sources.away.emplace(host, std::move(reason));
  }
  for (const api::Checkpoint& saved : TRY(setup_.insight.checkpoints(run.id)))
    if (is_in_folder_of_host(saved, run))
      sources.reported = std::max(sources.reported.value_or(0), saved.step);
  return sources;
}

// --- Answers ---

api::ServiceOrders HostCalls::orders(const std::string& host) {
  api::ServiceOrders orders = setup_.hosts_engine->orders(host);
  orders.files = file_orders_.open_orders(host);
  return orders;
}

void HostCalls::answer(const std::string& host) {
  const auto call = waiting_.extract(host);
  if (!call.empty()) call.mapped().reply.send(orders(host));
}

// Together for several orders, and never inside the call that makes them.
void HostCalls::answer_soon(const std::string& host) {
  const bool is_first = announced_.empty();
  announced_.insert(host);
  if (is_first)
    announced_timer_ = loop_.after(std::chrono::milliseconds(1), [this] { answer_announced(); });
}

void HostCalls::answer_announced() {
  for (const std::string& host : std::exchange(announced_, {})) answer(host);
}

void HostCalls::finish() {
  ended_ = true;
  while (!waiting_.empty()) answer(std::string(waiting_.begin()->first));
}

}  // namespace lockstep::server
