#include "platform/engine/local/node_worker.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/os/file_lock.h"
#include "base/os/files.h"
#include "platform/host/node_files.h"

namespace lockstep::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kFirstListWait = seconds(1);
constexpr Duration kListWait = milliseconds(25);
constexpr Duration kListAgeMax = seconds(10);
constexpr Duration kFailureListed = std::chrono::minutes(10);
constexpr Duration kIdleWait = seconds(10);  // between checks for work

// The node's name without '/': "0a1b:demo:42.2:0".
std::string cgroup_name(const model::NodeName& node) {
  std::string name = text(node);
  std::ranges::replace(name, '/', ':');
  return name;
}

// None: the group is not a node's.
std::optional<model::NodeName> node_of_cgroup(std::string name) {
  const auto generation = name.find(':');
  if (generation == std::string::npos) return std::nullopt;
  std::replace(name.begin() + static_cast<std::ptrdiff_t>(generation) + 1, name.end(), ':', '/');
  auto node = model::parse_node_name(name);
  return node ? std::optional(*std::move(node)) : std::nullopt;
}

// As the run asks for; any node is bounded in its processes.
CgroupLimits limits_of(const host::LaunchSpec& launch) {
  CgroupLimits limits{.processes = model::kProcessesDefault};
  if (!launch.attempt) return limits;
  const model::RunSpec& spec = launch.attempt->spec;
  return {.memory = spec.needs.memory,
          .cores = spec.needs.cores,
          .processes = spec.processes.value_or(model::kProcessesDefault)};
}

bool is_listed(const std::vector<ListedNode>& nodes, const model::NodeName& node) {
  return std::ranges::binary_search(nodes, node, {}, &ListedNode::node);
}

}  // namespace

NodeWorker::NodeWorker(Setup setup)
    : setup_(std::move(setup)), watch_(host::kNodeToken), thread_([this] { work(); }) {}

NodeWorker::~NodeWorker() {
  {
    const Lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void NodeWorker::submit(Gang gang) {
  const auto shared = std::make_shared<const Gang>(std::move(gang));
  const Lock lock(mutex_);
  for (const NodePlacement& placement : shared->nodes) {
    const model::NodeName node = node_name(*shared, placement);
    if (!submitted_.insert(node).second) continue;
    submissions_[node] = {};
    queue_.push_back({shared, placement});
  }
  changed_.notify_all();
}

void NodeWorker::kill(const model::NodeName& node) {
  {
    const Lock lock(mutex_);
    const auto found = submissions_.find(node);
    if (found != submissions_.end() && found->second.state == Submission::State::queued) {
      std::erase_if(queue_, [&](const QueuedNode& queued) {
        return node_name(*queued.gang, queued.placement) == node;
      });
      submissions_.erase(found);
      return;
    }
    if (found != submissions_.end()) found->second.kill_requested = true;
  }
  watch_.kill(node_token(setup_.installation, node));
}

Result<std::vector<ListedNode>> NodeWorker::list() {
  const Lock lock(mutex_);
  list_wanted_ = true;
  changed_.notify_all();
  const std::int64_t wanted = lists_begun_ + 1;
  const auto deadline = Deadline::after(latest_.number == 0 ? kFirstListWait : kListWait);
  while (latest_.number < wanted && changed_.wait_until(mutex_, deadline)) {
  }
  if (latest_.number == 0 || latest_.too_old.passed())
    return Error{Code::unavailable,
                 format("the processes of this machine were not looked at for {}; a file system of "
                        "the daemon's folder may hang",
                        text(kListAgeMax))};
  if (!latest_.nodes) return latest_.nodes;
  return with_submissions(*latest_.nodes);
}

std::vector<ListedNode> NodeWorker::with_submissions(std::vector<ListedNode> nodes) const {
  const std::size_t listed = nodes.size();
  const std::span<const ListedNode> known(nodes.data(), listed);
  std::vector<ListedNode> more;
  for (const auto& [node, submission] : submissions_) {
    if (std::ranges::binary_search(known, node, {}, &ListedNode::node)) continue;
    const bool failed = submission.state == Submission::State::failed;
    more.push_back({.node = node,
                    .seen = {.phase = failed ? model::NodePhase::gone : model::NodePhase::starting,
                             .reason = submission.reason,
                             .blame = submission.blame}});
  }
  nodes.insert(nodes.end(), more.begin(), more.end());
  std::ranges::sort(nodes, {}, &ListedNode::node);
  return nodes;
}

// --- In the thread ---

void NodeWorker::work() {
  for (;;) {
    std::optional<QueuedNode> next;
    bool lists = false;
    {
      const Lock lock(mutex_);
      while (!ending_ && !list_wanted_ && queue_.empty())
        changed_.wait_until(mutex_, Deadline::after(kIdleWait));
      if (ending_) return;
      lists = std::exchange(list_wanted_, false);
      if (!lists) {
        next = std::move(queue_.front());
        queue_.pop_front();
        submissions_[node_name(*next->gang, next->placement)].state = Submission::State::starting;
      }
    }
    if (lists)
      make_list();
    else
      start(*next);
  }
}

void NodeWorker::start(const QueuedNode& node) {
  const host::LaunchSpec launch = launch_spec(*node.gang, node.placement, setup_.home);
  if (has_started(launch.node_folder)) return record_start(node, {}, model::EndBlame::unknown);
  const auto account = account_of(launch);
  if (!account) {
    const bool refused = account.error().code == Code::denied;
    return record_start(node, account.error(),
                        refused ? model::EndBlame::refusal : model::EndBlame::host);
  }
  const auto started = start_processes(*node.gang, node.placement, launch, *account);
  const bool exhausted = !started && started.error().code == Code::exhausted;
  record_start(node, started, exhausted ? model::EndBlame::engine : model::EndBlame::host);
}

Result<std::optional<Account>> NodeWorker::account_of(const host::LaunchSpec& launch) const {
  if (!setup_.account_of) return std::optional<Account>();
  return setup_.account_of(launch);
}

Result<void> NodeWorker::start_processes(const Gang& gang, const NodePlacement& placement,
                                         const host::LaunchSpec& launch,
                                         const std::optional<Account>& account) {
  TRY(make_folders(launch.node_folder));
  if (account) TRY(let_pass(setup_.home, launch.node_folder));
  if (gang.make_checkpoint_folder) {
    TRY(make_folders(launch.checkpoint_folder));
    if (account) TRY(give_to(*account, launch.checkpoint_folder));
  }
  const std::string token = node_token(setup_.installation, node_name(gang, placement));
  AgentConfinement confinement{.account = account};
  if (setup_.cgroups)
    confinement.cgroups =
        TRY(setup_.cgroups->make(cgroup_name(node_name(gang, placement)), limits_of(launch)));
  TRY(start_agent(setup_.program, launch, token, confinement));
  watch_.expect(token);
  return {};
}

// The list that is being made may not show it.
void NodeWorker::record_start(const QueuedNode& node, const Result<void>& started,
                              model::EndBlame blame) {
  const model::NodeName name = node_name(*node.gang, node.placement);
  bool kills = false;
  {
    const Lock lock(mutex_);
    Submission& submission = submissions_[name];
    kills = submission.kill_requested;
    submission.state = started ? Submission::State::started : Submission::State::failed;
    submission.list = lists_begun_ + 1;
    if (!started) {
      submission.reason = started.error().message;
      submission.blame = blame;
      submission.forgotten = Deadline::after(kFailureListed);
      drop_rest_of_gang(name.attempt());
    }
  }
  if (!started) LS_LOG(warning, "starting {} failed: {}", text(name), started.error().message);
  if (kills) watch_.kill(node_token(setup_.installation, name));
}

// All of a gang or nothing: nodes that run already are ended by the controller.
void NodeWorker::drop_rest_of_gang(const model::AttemptName& attempt) {
  for (const QueuedNode& queued : queue_)
    if (queued.gang->attempt == attempt)
      submissions_.erase(node_name(*queued.gang, queued.placement));
  std::erase_if(queue_, [&](const QueuedNode& queued) { return queued.gang->attempt == attempt; });
}

void NodeWorker::make_list() {
  std::int64_t number = 0;
  {
    const Lock lock(mutex_);
    number = ++lists_begun_;
  }
  publish(scan(), number);
}

Result<std::vector<ListedNode>> NodeWorker::scan() {
  std::vector<ListedNode> nodes;
  std::set<model::NodeName> without_agent;
  const std::string prefix = setup_.installation + ":";
  for (const std::string& mark : TRY(watch_.marks())) {
    if (!mark.starts_with(prefix)) continue;
    const auto node = model::parse_node_name(std::string_view(mark).substr(prefix.size()));
    if (!node) continue;
    auto record = record_of(*node);
    // An engine that chooses the hosts itself has started it on this machine.
    if (record->error.empty() && record->host.empty()) continue;
    // Its agent has exited once two lists in a row have found its lock free.
    if (!has_agent_of(*node)) without_agent.insert(*node);
    const bool has_agent = !without_agent.contains(*node) || !without_agent_.contains(*node);
    nodes.push_back({.node = *node, .seen = {.has_agent = has_agent}, .record = std::move(record)});
  }
  without_agent_ = std::move(without_agent);
  std::ranges::sort(nodes, {}, &ListedNode::node);
  remove_cgroups(nodes);
  std::erase_if(records_, [&](const auto& entry) { return !is_listed(nodes, entry.first); });
  return nodes;
}

// A process that has cleared its environment is in no list, and ends here. A list may miss a node,
// so its agent's lock must be free too.
void NodeWorker::remove_cgroups(const std::vector<ListedNode>& nodes) {
  if (!setup_.cgroups) return;
  for (const std::string& group : setup_.cgroups->list()) {
    const auto node = node_of_cgroup(group);
    if (!node || is_listed(nodes, *node)) continue;
    {
      const Lock lock(mutex_);
      const auto found = submissions_.find(*node);
      if (found != submissions_.end() && found->second.state != Submission::State::failed) continue;
    }
    if (has_agent_of(*node)) continue;
    const auto removed = setup_.cgroups->remove(group);
    if (!removed && removed.error().code != Code::unavailable)
      LS_LOG(warning, "{}", removed.error().message);
  }
}

// The files belong to the node's user, and may be links.
bool NodeWorker::has_agent_of(const model::NodeName& node) const {
  const host::NodeFiles files{host::node_folder(setup_.home, node)};
  const host::OwnersAccess as_owner(files.folder);
  return is_locked(files.lock());
}

std::shared_ptr<const LaunchRecord> NodeWorker::record_of(const model::NodeName& node) {
  const host::OwnersAccess as_owner(host::node_folder(setup_.home, node));
  auto& record = records_[node];
  if (!record)
    record = std::make_shared<const LaunchRecord>(
        launch_record(read_launch_file(host::node_folder(setup_.home, node))));
  return record;
}

void NodeWorker::forget_ended(const std::vector<ListedNode>& nodes) {
  for (auto node = submitted_.begin(); node != submitted_.end();) {
    const bool exists = submissions_.contains(*node) || is_listed(nodes, *node);
    node = exists ? std::next(node) : submitted_.erase(node);
  }
}

// From now on the list alone tells of the nodes that were started before it began.
void NodeWorker::publish(Result<std::vector<ListedNode>> nodes, std::int64_t number) {
  const Lock lock(mutex_);
  if (nodes) {
    std::erase_if(submissions_, [&](const auto& entry) {
      const Submission& submission = entry.second;
      return (submission.state == Submission::State::started && submission.list <= number) ||
             (submission.state == Submission::State::failed && submission.forgotten.passed());
    });
    forget_ended(*nodes);
  }
  latest_ = {number, Deadline::after(kListAgeMax), std::move(nodes)};
  changed_.notify_all();
}

}  // namespace lockstep::engine
