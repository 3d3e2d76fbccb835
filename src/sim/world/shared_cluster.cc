#include "sim/world/shared_cluster.h"

#include <algorithm>
#include <numeric>
#include <ranges>
#include <utility>

#include "map/query.h"

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kPassInterval = seconds(1);  // of the controller, over its queue
constexpr Duration kAgentStartMax = seconds(2);
constexpr Duration kPassedMax = minutes(5);    // a job that waits for longer is passed by no other
constexpr Duration kEndedJobAge = minutes(5);  // so long an ended job stays listed
constexpr Duration kJobTimeMargin = minutes(30);  // beyond the time limit of the run
constexpr Duration kOthersInterval = minutes(1);  // at most, between jobs of others
constexpr Duration kOthersLifetimeMax = minutes(4);
constexpr Duration kRound = minutes(1);  // the time limit of a job is a multiple of it

}  // namespace

SharedCluster::SharedCluster(const map::ClusterMap& map, const ClusterComponents& components,
                             std::uint64_t seed)
    : components_(components), random_(seed, "shared cluster") {
  for (const map::Host* host : map::hosts(map))
    for (const map::Device* device : map::devices(*host))
      devices_[host->id].push_back(device->number);
}

void SharedCluster::begin() {
  at_rest_ = false;
  tick();
  submit_other();
}

void SharedCluster::come_to_rest() {
  at_rest_ = true;
  away_ = false;
  std::erase_if(jobs_, [](const auto& entry) {
    return !entry.second.gang && entry.second.state == JobState::pending;
  });
}

void SharedCluster::tick() {
  if (!away_) {
    for (auto& [id, job] : jobs_)
      if (job.state == JobState::running) observe(job);
    start_pending();
    forget_old_jobs();
  }
  components_.context.timeline.after(kPassInterval, [this] { tick(); });
}

void SharedCluster::forget_old_jobs() {
  const Duration now = components_.context.timeline.now();
  std::erase_if(jobs_, [&](const auto& entry) {
    return entry.second.state == JobState::over && now - entry.second.ended >= kEndedJobAge;
  });
}

// --- Jobs of others ---

void SharedCluster::submit_other() {
  components_.context.timeline.after(random_.from_to(seconds(5), kOthersInterval), [this] {
    if (at_rest_) return;
    std::vector<int> sizes(static_cast<std::size_t>(random_.from_to(1, 2)));
    for (int& size : sizes) size = random_.from_to(1, 2);
    add_job(std::move(sizes)).lifetime = random_.from_to(seconds(10), kOthersLifetimeMax);
    submit_other();
  });
}

void SharedCluster::submit_burst() {
  for (const auto& [host, numbers] : devices_)
    if (random_.percent(80))
      add_job({static_cast<int>(numbers.size())}).lifetime =
          random_.from_to(seconds(10), kOthersLifetimeMax);
}

SharedCluster::Job& SharedCluster::add_job(std::vector<int> sizes) {
  Job& job = jobs_[++last_id_];
  job.id = last_id_;
  job.sizes = std::move(sizes);
  job.submitted = job.reason_since = components_.context.timeline.now();
  job.time_limit = kOthersLifetimeMax;
  job.nodes.resize(job.sizes.size());
  return job;
}

// --- Calls ---

Result<SharedCluster::JobId> SharedCluster::submit(std::shared_ptr<const engine::Gang> gang) {
  std::vector<int> sizes;
  for (const engine::NodePlacement& node : gang->nodes)
    sizes.push_back(static_cast<int>(node.devices.size()));
  Job wanted{.gang = gang, .sizes = sizes};
  if (!place(wanted, devices_))
    return Error{Code::invalid, "Requested node configuration is not available"};
  forget_hosts(*gang);
  Job& job = add_job(std::move(sizes));
  job.time_limit = gang->program.time_left + kJobTimeMargin;
  job.pending_reason = format("the cluster has queued job {}", job.id);
  components_.context.trace("cluster", "queues {} as job {}", text(gang->attempt.id), job.id);
  job.gang = std::move(gang);
  attempts_.insert(job.gang->attempt);
  if (on_submission_) std::exchange(on_submission_, {})();
  return job.id;
}

// If it knows no earlier job of the attempt, the new one chooses again.
void SharedCluster::forget_hosts(const engine::Gang& gang) {
  for (const auto& [id, job] : jobs_)
    if (job.gang && job.gang->attempt == gang.attempt) return;
  for (const engine::NodePlacement& placement : gang.nodes)
    chosen_hosts_.erase(engine::node_name(gang, placement));
}

void SharedCluster::cancel_job(JobId id) { end_job(id, "was cancelled", model::EndBlame::engine); }

void SharedCluster::end_job(JobId id, const std::string& reason, model::EndBlame blame) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.state == JobState::over) return;
  Job& job = found->second;
  components_.context.trace("cluster", "ends job {}: it {}", id, reason);
  if (!job.cancelled) job.cancelled = components_.context.timeline.now();
  for (int index = 0; std::cmp_less(index, job.nodes.size()); ++index) {
    JobNode& node = job.nodes[static_cast<std::size_t>(index)];
    if (node.ended) continue;
    if (node.reason.empty()) {
      node.reason = format("job {} {}", id, reason);
      node.blame = blame;
    }
    if (is_present(job, index)) components_.hosts.kill(node_of(job, index));
    node.started = true;
  }
  observe(job);
}

void SharedCluster::cancel_node(JobId id, int index) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.state == JobState::over) return;
  Job& job = found->second;
  if (!job.cancelled) job.cancelled = components_.context.timeline.now();
  if (is_present(job, index)) components_.hosts.kill(node_of(job, index));
}

std::vector<SharedCluster::ListedJob> SharedCluster::list() const {
  std::vector<ListedJob> listed;
  for (const auto& [id, job] : jobs_) {
    if (!job.gang) continue;
    ListedJob& one =
        listed.emplace_back(ListedJob{.id = id, .attempt = job.gang->attempt, .state = job.state});
    for (int index = 0; std::cmp_less(index, job.nodes.size()); ++index)
      one.nodes.push_back(
          {.node = node_of(job, index),
           .seen = observation(job, index),
           .record = std::make_shared<const engine::LaunchRecord>(
               engine::launch_record(engine::launch_spec(
                   *job.gang, job.gang->nodes[static_cast<std::size_t>(index)], "/home/shared")))});
  }
  return listed;
}

std::map<std::string, std::string> SharedCluster::unfit_hosts() const {
  std::map<std::string, std::string> unfit;
  for (const auto& [host, numbers] : devices_)
    if (!components_.hosts.is_up(host)) unfit.emplace(host, "it is down");
  return unfit;
}

model::Observation SharedCluster::observation(const Job& job, int index) const {
  const JobNode& node = job.nodes[static_cast<std::size_t>(index)];
  model::Observation seen{.handle = format("{}", job.id), .host = node.host};
  if (job.state == JobState::pending) {
    seen.phase = model::NodePhase::pending;
    seen.reason = job.pending_reason;
  } else if (node.ended) {
    seen.phase = model::NodePhase::gone;
    seen.reason = node.reason;
    seen.blame = node.blame;
  } else if (!node.started) {
    seen.phase = model::NodePhase::starting;
  } else {
    seen.has_agent = components_.hosts.has_agent(node_of(job, index));
  }
  return seen;
}

// --- Jobs that run ---

model::NodeName SharedCluster::node_of(const Job& job, int index) {
  return engine::node_name(*job.gang, job.gang->nodes[static_cast<std::size_t>(index)]);
}

// A process of the node lives, and this job has started its agent.
bool SharedCluster::is_present(const Job& job, int index) const {
  const model::NodeName node = node_of(job, index);
  const auto agent = agents_.find(node);
  return agent != agents_.end() && agent->second == job.id && components_.truth.is_alive(node);
}

void SharedCluster::end_node(Job& job, int index, const std::string& reason,
                             model::EndBlame blame) {
  JobNode& node = job.nodes[static_cast<std::size_t>(index)];
  node.ended = node.started = true;
  if (node.reason.empty()) {
    node.reason = reason;
    node.blame = blame;
  }
}

// The job is over when its last node has ended.
void SharedCluster::observe(Job& job) {
  const Duration now = components_.context.timeline.now();
  if (!job.gang) {
    if (job.state == JobState::running && now - job.started < job.lifetime) return;
    job.state = JobState::over;
    job.ended = now;
    return;
  }
  check_host_failure(job);
  for (int index = 0; std::cmp_less(index, job.nodes.size()); ++index) {
    const JobNode& node = job.nodes[static_cast<std::size_t>(index)];
    if (!node.ended && node.started && !is_present(job, index))
      end_node(job, index, "", model::EndBlame::unknown);
  }
  if (!std::ranges::all_of(job.nodes, &JobNode::ended)) return;
  job.state = JobState::over;
  job.ended = now;
  components_.context.trace("cluster", "job {} is over", job.id);
}

// The first host runs the job's script: without it the job ends.
void SharedCluster::check_host_failure(Job& job) {
  for (int index = 0; std::cmp_less(index, job.nodes.size()); ++index) {
    const JobNode& node = job.nodes[static_cast<std::size_t>(index)];
    if (node.ended || node.host.empty() || components_.hosts.is_up(node.host)) continue;
    if (!node.started) components_.truth.mark_disturbed(job.gang->attempt);
    end_node(job, index, format("host {} is down", node.host), model::EndBlame::host);
    if (index > 0) continue;
    components_.context.trace("cluster", "ends job {}: its first host failed", job.id);
    for (int other = 1; std::cmp_less(other, job.nodes.size()); ++other) {
      JobNode& peer = job.nodes[static_cast<std::size_t>(other)];
      if (peer.ended || !components_.hosts.is_up(peer.host)) continue;
      peer.started = true;
      peer.reason = format("job {} ended because its host {} failed", job.id, node.host);
      peer.blame = model::EndBlame::engine;
      if (is_present(job, other)) components_.hosts.kill(node_of(job, other));
    }
  }
}

// --- Jobs that wait ---

SharedCluster::Free SharedCluster::free_devices() const {
  Free free = devices_;
  std::erase_if(free, [&](const auto& entry) { return !components_.hosts.is_up(entry.first); });
  for (const auto& [id, job] : jobs_) {
    if (job.state != JobState::running) continue;
    for (const JobNode& node : job.nodes)
      if (const auto host = free.find(node.host); host != free.end())
        std::erase_if(host->second, [&](int device) {
          return std::ranges::find(node.devices, device) != node.devices.end();
        });
  }
  return free;
}

// On the first hosts that are large enough, each node on another one.
std::optional<std::vector<SharedCluster::JobNode>> SharedCluster::place(const Job& job,
                                                                        Free free) const {
  std::vector<JobNode> placed;
  for (const int size : job.sizes) {
    const auto host = std::ranges::find_if(free, [&](const auto& entry) {
      const auto& [name, devices] = entry;
      const bool is_excluded = job.gang && std::ranges::find(job.gang->excluded_hosts, name) !=
                                               job.gang->excluded_hosts.end();
      return !is_excluded && std::cmp_greater_equal(devices.size(), size);
    });
    if (host == free.end()) return std::nullopt;
    auto devices = host->second;
    devices.resize(static_cast<std::size_t>(size));
    placed.push_back({.host = host->first, .devices = std::move(devices)});
    free.erase(host);
  }
  return placed;
}

// A job that could not even start in an empty cluster holds up no other.
void SharedCluster::start_pending() {
  const Duration now = components_.context.timeline.now();
  bool is_first = true;
  for (auto& [id, job] : jobs_) {
    if (job.state != JobState::pending) continue;
    if (auto nodes = place(job, free_devices())) {
      start(job, *std::move(nodes));
      continue;
    }
    Free up = devices_;
    std::erase_if(up, [&](const auto& entry) { return !components_.hosts.is_up(entry.first); });
    const bool can_start = place(job, std::move(up)).has_value();
    std::string reason = reason_of(job, !can_start ? "ReqNodeNotAvail"
                                        : is_first ? "Resources"
                                                   : "Priority");
    if (reason != job.pending_reason) job.reason_since = now;
    job.pending_reason = std::move(reason);
    if (can_start && now - job.submitted >= kPassedMax) return;
    is_first = is_first && !can_start;
  }
}

// The expected start is the first end of a job by its time limit.
std::string SharedCluster::reason_of(const Job& job, std::string_view word) const {
  std::optional<Duration> next;
  for (const auto& [id, other] : jobs_)
    if (other.state == JobState::running)
      next = std::min(next.value_or(Duration::max()), other.started + other.time_limit);
  const Duration now = components_.context.timeline.now();
  const auto start = next && *next > now
                         ? format("; it expects the start at {}",
                                  text(components_.context.clock.at(*next - *next % kRound)))
                         : "";
  return format("the cluster keeps job {} in its queue: {}{}", job.id, word, start);
}

void SharedCluster::start(Job& job, std::vector<JobNode> nodes) {
  job.state = JobState::running;
  job.started = components_.context.timeline.now();
  job.nodes = std::move(nodes);
  if (!job.gang) return;
  for (int index = 0; std::cmp_less(index, job.nodes.size()); ++index) {
    const JobNode& node = job.nodes[static_cast<std::size_t>(index)];
    chosen_hosts_.try_emplace(node_of(job, index), node.host);
    components_.context.trace("cluster", "starts {} on {} for job {}", text(node_of(job, index).id),
                              node.host, job.id);
    components_.context.timeline.after(random_.from_to(milliseconds(1), kAgentStartMax),
                                       [this, id = job.id, index] { start_node(id, index); });
  }
}

// An agent of the node ran before, or the older of two jobs of the attempt is to start it: the lock
// file of the node ends the second one.
bool SharedCluster::is_locked(const Job& job, const model::NodeName& node) const {
  if (agents_.contains(node)) return true;
  return std::ranges::any_of(jobs_, [&](const auto& entry) {
    const Job& other = entry.second;
    return other.id < job.id && other.gang && other.gang->attempt == job.gang->attempt &&
           other.state != JobState::over;
  });
}

void SharedCluster::start_node(JobId id, int index) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.state == JobState::over) return;
  Job& job = found->second;
  JobNode& node = job.nodes[static_cast<std::size_t>(index)];
  if (node.started || node.ended) return;  // cancelled meanwhile
  const model::NodeName name = node_of(job, index);
  if (is_locked(job, name))
    return end_node(job, index, std::string(kHasStarted), model::EndBlame::engine);
  engine::NodePlacement placement = job.gang->nodes[static_cast<std::size_t>(index)];
  placement.host = placement.address = node.host;
  placement.devices = node.devices;
  const host::LaunchSpec launch = engine::launch_spec(*job.gang, placement, "/home/shared");
  components_.truth.check_launch(launch);
  const auto started = components_.faults.starts_fail
                           ? Result<void>(Error{Code::unavailable, "no more processes"})
                           : components_.hosts.start(launch);
  components_.context.trace("cluster", "launches {} on {}{}{}", launch.node, launch.host,
                            started ? "" : ": ", started ? "" : started.error().message);
  if (started) {
    node.started = true;
    agents_.emplace(name, id);
    return;
  }
  components_.truth.mark_disturbed(name.attempt());
  end_node(job, index, started.error().message, model::EndBlame::host);
}

// --- The truth ---

std::string SharedCluster::host_of(const model::NodeName& node) const {
  const auto found = chosen_hosts_.find(node);
  return found == chosen_hosts_.end() ? "" : found->second;
}

const SharedCluster::JobNode* SharedCluster::ended_node(const model::NodeName& node) const {
  for (const auto& [id, job] : jobs_) {
    if (!job.gang || job.gang->attempt != node.attempt()) continue;
    const JobNode& known = job.nodes[static_cast<std::size_t>(node.id.index)];
    return known.ended ? &known : nullptr;
  }
  return nullptr;
}

bool SharedCluster::has_live_jobs() const {
  return std::ranges::any_of(jobs_, [](const auto& entry) {
    return entry.second.gang && entry.second.state != JobState::over;
  });
}

}  // namespace lockstep::sim
