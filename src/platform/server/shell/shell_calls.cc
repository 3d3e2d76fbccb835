#include "platform/server/shell/shell_calls.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <utility>

#include "base/format.h"
#include "net/crypto.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/host/ssh_keys.h"

namespace lockstep::server {
namespace {

constexpr Duration kAgentLimit = std::chrono::seconds(10);
constexpr std::size_t kClientsMax = 256;
constexpr std::size_t kSignaturesMax = 256;
constexpr std::size_t kOrderBytes = 8;
constexpr std::size_t kUnixUserMax = 64;

// It is in a file of the client's ssh, and in its arguments.
Result<void> check_unix_user(const std::string& name) {
  const bool is_name =
      !name.empty() && name.size() <= kUnixUserMax && name.front() != '-' &&
      name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
          std::string::npos;
  if (is_name) return {};
  return Error{Code::invalid, "the node's Unix user has a name that ssh does not take"};
}

Error no_shell_yet(const model::Run& run) {
  const std::string id = text(run.id);
  if (model::is_final(run.state))
    return {Code::invalid, format("{} has ended: only a running run has shells", id)};
  return {Code::invalid,
          format("{} does not run yet: `lockstep why {}` says what it waits for", id, id)};
}

Error no_call(const model::NodeName& node) {
  return {
      Code::unavailable,
      format("node {} of {} has not answered in {}: its agent is cut off from the daemon, or is "
             "of an older Lockstep without shells",
             node.id.index, text(node.id.attempt.run), text(kAgentLimit))};
}

// The results of both signatures, made on the thread.
struct Signatures {
  Result<SignedKey> host = Error{Code::internal, "not signed"};
  std::vector<Result<SignedKey>> users;
};

}  // namespace

ShellCalls::ShellCalls(net::Loop& loop, const CallContext& context, AgentPolls& agent_polls)
    : loop_(loop),
      context_(context),
      agent_polls_(agent_polls),
      authorities_(context.setup().home.folder),
      signing_(loop, kSignaturesMax) {}

Result<model::NodeName> ShellCalls::running_node(const RouteCall<api::kShell>& call) const {
  const model::RunId id = TRY(run_of(call.path_parameters));
  const model::Run& run = *TRY(context_.find_run(id));
  if (model::is_external(run))
    return Error{Code::invalid, format("{} was started by {}: shells are for runs that Lockstep "
                                       "starts",
                                       text(id), run.launcher)};
  const model::Attempt* attempt = model::live_attempt(context_.state(), id);
  if (attempt == nullptr || run.state != model::RunState::running) return no_shell_yet(run);
  const std::string& index = call.path_parameters.back();
  for (auto node = context_.state().nodes.lower_bound({attempt->id, 0});
       node != context_.state().nodes.end() && node->first.attempt == attempt->id; ++node)
    if (format("{}", node->first.index) == index)
      return model::name_of(context_.state(), node->first);
  return Error{Code::not_found, format("{} has no node {}; its nodes are 0 to {}", text(id), index,
                                       model::node_count(run.spec) - 1)};
}

Result<void> ShellCalls::open(const RouteCall<api::kShell>& call,
                              const Reply<api::ShellAccess>& reply) {
  TRY(host::check_ssh_public_key(call.request.public_key));
  const model::NodeName node = TRY(running_node(call));
  if (waiting_.size() >= kClientsMax)
    return Error{Code::unavailable, "too many shells are being opened: try again later"};
  const model::RunId& run = node.id.attempt.run;
  TRY(context_.accounts().record(context_.run_record(call, run, format("node {}", node.id.index))));
  std::string id = net::random_hex(kOrderBytes);
  waiting_.push_back({.id = id,
                      .node = node,
                      .user = call.caller.name,
                      .public_key = call.request.public_key,
                      .reply = reply,
                      .limit = loop_.after(kAgentLimit, [this, id] { give_up(id); })});
  agent_polls_.notify(run);
  return {};
}

void ShellCalls::give_up(const std::string& id) {
  const auto found = std::ranges::find(waiting_, id, &Waiting::id);
  if (found == waiting_.end()) return;
  const Reply<api::ShellAccess> reply = found->reply;
  const Error error = no_call(found->node);
  waiting_.erase(found);
  reply.send(error);
}

std::vector<ShellCalls::Waiting> ShellCalls::take(const model::NodeName& node) {
  std::vector<Waiting> taken;
  const auto rest = std::stable_partition(waiting_.begin(), waiting_.end(),
                                          [&](const Waiting& each) { return each.node != node; });
  std::move(rest, waiting_.end(), std::back_inserter(taken));
  waiting_.erase(rest, waiting_.end());
  for (Waiting& each : taken) each.limit.cancel();
  return taken;
}

Result<void> ShellCalls::prepared(const RouteCall<api::kNodeShell>& call,
                                  const Reply<api::NodeShellAnswer>& reply) {
  const model::NodeName node{call.query.generation.value_or(""),
                             TRY(node_of(call.path_parameters))};
  if (!model::has_node(context_.state(), node))
    return Error{Code::not_found, format("there is no node {}", text(node.id))};
  const api::NodeShell& shell = call.request;
  if (!shell.error) {
    TRY(host::check_ssh_public_key(shell.host_key));
    TRY(check_unix_user(shell.user));
  }
  // Shared, because a std::function must be copyable.
  const auto clients = std::make_shared<std::vector<Waiting>>(take(node));
  if (shell.error) {
    for (const Waiting& each : *clients)
      answer(each, "", Error{Code::invalid, step::one_line(*shell.error)});
    reply.send(api::NodeShellAnswer{});
    return {};
  }
  const bool runs = signing_.run([this, node, shell, clients, reply]() -> LoopTasks::Continuation {
    Signatures made{.host = authorities_.sign_host_key(shell.host_key, node.id), .users = {}};
    for (const Waiting& each : *clients)
      made.users.push_back(authorities_.sign_user_key(each.public_key, each.user,
                                                      {node.generation, node.id.attempt}));
    return [this, node, shell, clients, reply, made = std::move(made)] {
      // The agent first: the client's next call reaches it.
      if (made.host)
        reply.send(
            api::NodeShellAnswer{.certificate = made.host->certificate,
                                 .user_authority = made.host->other_authority,
                                 .principal = ssh_principal({node.generation, node.id.attempt})});
      else
        reply.send(made.host.error());
      for (std::size_t i = 0; i < clients->size(); ++i)
        answer((*clients)[i], shell.user, made.users[i]);
    };
  });
  if (runs) return {};
  return Error{Code::unavailable, "too many shells are being opened: try again later"};
}

void ShellCalls::answer(const Waiting& waiting, const std::string& unix_user,
                        const Result<SignedKey>& key) {
  if (!key) return waiting.reply.send(key.error());
  waiting.reply.send(api::ShellAccess{.user = unix_user,
                                      .host_name = ssh_host_name(waiting.node.id),
                                      .certificate = key->certificate,
                                      .host_authority = key->other_authority});
}

std::optional<std::string> ShellCalls::order_for(const model::NodeName& node) const {
  const auto found = std::find_if(waiting_.rbegin(), waiting_.rend(),
                                  [&](const Waiting& each) { return each.node == node; });
  if (found == waiting_.rend()) return std::nullopt;
  return found->id;
}

bool ShellCalls::has_new_order(const model::NodeName& node) const {
  return std::ranges::any_of(
      waiting_, [&](const Waiting& each) { return each.node == node && !each.is_sent; });
}

void ShellCalls::mark_sent(const model::NodeName& node) {
  for (Waiting& each : waiting_)
    if (each.node == node) each.is_sent = true;
}

}  // namespace lockstep::server
