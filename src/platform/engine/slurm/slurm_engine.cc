#include "platform/engine/slurm/slurm_engine.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/format.h"
#include "base/log.h"
#include "base/os/files.h"
#include "platform/engine/local/agent_program.h"
#include "platform/engine/slurm/shared_program.h"
#include "platform/engine/slurm/slurm_job_size.h"
#include "platform/engine/slurm/slurm_map.h"
#include "platform/host/node_files.h"

namespace lockstep::engine {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr Duration kSlurmFailureListed = std::chrono::minutes(10);
constexpr Duration kSubmitPauseFirst = seconds(2);
constexpr Duration kSubmitPauseMax = seconds(60);
// Beyond the time limit of the run, which the agents enforce: for the start and the last logs.
constexpr Duration kJobTimeMargin = std::chrono::minutes(30);
constexpr Duration kFirstAnswerWait = seconds(3);
constexpr std::size_t kStartErrorMax = 2000;

// The end of the file, where srun says why it failed.
std::string tail_of(const std::filesystem::path& file) {
  const std::string text = read_file(file).value_or("");
  return text.substr(text.size() - std::min(text.size(), kStartErrorMax));
}

std::string own_user() { return format("{}", ::geteuid()); }

bool file_exists(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

}  // namespace

SlurmEngine::SlurmEngine(Setup setup)
    : setup_(std::move(setup)), answered_(setup_.clock.now()), thread_([this] { work(); }) {}

SlurmEngine::~SlurmEngine() {
  {
    const Lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void SlurmEngine::submit(Gang gang) {
  const Lock lock(mutex_);
  if (jobs_.attempts.contains(gang.attempt) || submissions_.contains(gang.attempt)) return;
  const model::AttemptName attempt = gang.attempt;
  Submission& submission = submissions_[attempt];
  submission.gang = std::make_shared<const Gang>(std::move(gang));
  submission.pause = kSubmitPauseFirst;
  changed_.notify_all();
}

void SlurmEngine::kill(const model::NodeName& node) {
  const Lock lock(mutex_);
  const auto found = submissions_.find(node.attempt());
  if (found != submissions_.end()) found->second.killed.insert(node.id.index);
  kills_.insert(node);
  changed_.notify_all();
}

Result<EngineList> SlurmEngine::list() {
  const Lock lock(mutex_);
  const auto deadline = Deadline::after(kFirstAnswerWait);
  while (jobs_.number == 0 && problem_.empty() && changed_.wait_until(mutex_, deadline)) {
  }
  if (jobs_.number == 0 || steady_clock::now() - jobs_.begun > setup_.list_age_max)
    return Error{Code::unavailable,
                 format("slurmctld has not answered since {}: {}", text(answered_),
                        problem_.empty() ? "no answer yet" : problem_)};
  EngineList listed{.nodes = jobs_.nodes};
  listed.unfit = unfit_;
  listed.map = map_;
  for (const auto& [attempt, submission] : submissions_)
    if (!jobs_.attempts.contains(attempt)) add_submission(submission, listed.nodes);
  std::ranges::sort(listed.nodes, {}, &ListedNode::node);
  return listed;
}

// A call without an answer may have had its effect, until a list that began later shows that it had
// none.
bool SlurmEngine::has_no_job(const Submission& submission) const {
  return submission.state == Submission::State::queued && submission.list < jobs_.number;
}

void SlurmEngine::add_submission(const Submission& submission,
                                 std::vector<ListedNode>& nodes) const {
  const bool failed = submission.state == Submission::State::failed;
  model::Observation seen{
      .phase = failed ? model::NodePhase::gone : model::NodePhase::pending,
      .reason = submission.reason.empty() ? "it is being submitted to Slurm" : submission.reason,
      .blame = submission.blame};
  if (submission.job != 0) seen.handle = format("{}", submission.job);
  for (const NodePlacement& placement : submission.gang->nodes) {
    if (has_no_job(submission) && submission.killed.contains(placement.index)) continue;
    nodes.push_back({.node = node_name(*submission.gang, placement), .seen = seen});
  }
}

// A job that was just submitted starts at once, if its hosts are free.
Duration SlurmEngine::interval() const {
  const auto is_new = [](const auto& entry) {
    return entry.second.state == Submission::State::submitted;
  };
  if (std::ranges::any_of(submissions_, is_new)) return setup_.first_interval;
  return is_busy() ? setup_.busy_interval : setup_.calm_interval;
}

// A node starts or ends, or is to be ended.
bool SlurmEngine::is_busy() const {
  if (!kills_.empty() || !submissions_.empty() || !problem_.empty()) return true;
  return std::ranges::any_of(jobs_.nodes, [](const ListedNode& node) {
    return node.seen.phase == model::NodePhase::pending ||
           node.seen.phase == model::NodePhase::starting || !node.seen.has_agent;
  });
}

// --- In the thread ---

void SlurmEngine::work() {
  for (;;) {
    refresh();
    execute_kills();
    submit_next();
    remove_old_programs();
    if (!wait_for_work()) return;
  }
}

// False: the engine ends. A node that has ended is listed at once, since others wait for its
// devices; so is one that starts where Slurm has chosen.
bool SlurmEngine::wait_for_work() {
  std::optional<Deadline> next;
  for (;;) {
    {
      const Lock lock(mutex_);
      if (!next) next = Deadline::after(interval());
      const auto slice = Deadline::after(std::min(next->remaining(), setup_.end_interval));
      const std::size_t kills = kills_.size(), submissions = submissions_.size();
      while (!ending_ && kills_.size() == kills && submissions_.size() == submissions &&
             changed_.wait_until(mutex_, slice)) {
      }
      if (ending_) return false;
      if (next->passed() || kills_.size() != kills || submissions_.size() != submissions)
        return true;
    }
    if (std::ranges::any_of(awaited_, file_exists)) return true;
  }
}

// Once none of the installation's jobs runs or waits: agents may run older programs.
void SlurmEngine::remove_old_programs() {
  if (!old_programs_) return;
  {
    const Lock lock(mutex_);
    const bool has_live = std::ranges::any_of(jobs_.nodes, [](const ListedNode& node) {
      return node.seen.phase != model::NodePhase::gone;
    });
    if (jobs_.number == 0 || has_live) return;
  }
  remove_other_programs(setup_.home, setup_.options.program);
  old_programs_ = false;
}

void SlurmEngine::refresh() {
  std::int64_t number = 0;
  {
    const Lock lock(mutex_);
    number = ++lists_begun_;
  }
  const auto begun = steady_clock::now();
  auto jobs = read_jobs();
  if (jobs) {
    jobs->number = number;
    jobs->begun = begun;
  }
  publish(std::move(jobs));
}

void SlurmEngine::read_new_switches(const std::vector<SlurmHost>& hosts) {
  const std::size_t before = known_hosts_.size();
  for (const SlurmHost& host : hosts) known_hosts_.insert(host.name);
  if (known_hosts_.size() != before) switches_ = list_slurm_switches(*setup_.slurm);
}

Result<void> SlurmEngine::read_hosts() {
  auto hosts = TRY(list_slurm_hosts(*setup_.slurm, setup_.options.partitions, setup_.chosen_by));
  read_new_switches(hosts);
  std::map<std::string, std::string> unfit;
  for (const std::string& name : known_hosts_)
    if (std::ranges::find(hosts, name, &SlurmHost::name) == hosts.end())
      unfit.emplace(name, "Slurm no longer has it in the partition");
  for (const SlurmHost& host : hosts)
    if (std::string reason = why_slurm_closed(host); !reason.empty())
      unfit.emplace(host.name, std::move(reason));
  map::ClusterMap map = map_of_slurm(hosts, switches_, setup_.chosen_by);
  if (auto checked = map::check(map); !checked && !map.pods.empty())
    return std::move(checked).error().with_context("the hosts of Slurm make no map");
  hosts_ = std::move(hosts);
  next_hosts_ = Deadline::after(setup_.hosts_interval);
  young_hosts_ = Deadline::after(setup_.calm_interval);
  const Lock lock(mutex_);
  unfit_ = std::move(unfit);
  if (!map.pods.empty() && (!map_ || *map_ != map))
    map_ = std::make_shared<const map::ClusterMap>(std::move(map));
  return {};
}

// The jobs of root's daemon belong to several users.
std::vector<std::string> SlurmEngine::squeue(std::vector<std::string> options,
                                             std::string_view form) const {
  std::vector<std::string> words = {"squeue", "-h"};
  words.insert(words.end(), options.begin(), options.end());
  if (!setup_.account_of) words.insert(words.end(), {"-u", own_user()});
  words.insert(words.end(), {"-o", std::string(form)});
  return words;
}

// Those of this installation, the first one of each attempt.
Result<SlurmEngine::OwnJobs> SlurmEngine::read_own_jobs() {
  auto listed = parse_slurm_jobs(TRY(setup_.slurm->run(squeue({"-t", "all"}, kJobFormat))));
  std::ranges::sort(listed, {}, &SlurmJob::id);
  OwnJobs jobs;
  for (SlurmJob& job : listed) {
    const auto name = job_in_comment(job.comment, setup_.options.installation);
    if (!name) continue;
    job.host_count = name->nodes;
    const auto [first, is_first] = jobs.emplace(name->attempt, job);
    if (is_first || is_slurm_job_over(job)) continue;
    first->second.has_duplicate = true;
    cancel_duplicate(job);
  }
  return jobs;
}

void SlurmEngine::read_files(const OwnJobs& jobs) {
  files_.clear();
  for (const auto& [attempt, job] : jobs)
    for (int index = 0; index < job.host_count; ++index) {
      const model::NodeName node{attempt.generation, {attempt.id, index}};
      files_[node] = files_of(node, job);
    }
  const auto is_old = [&](const auto& entry) { return !files_.contains(entry.first); };
  std::erase_if(records_, is_old);
  std::erase_if(step_outputs_, is_old);
}

// By the job and the name of the step. Without a job that runs, there are none.
Result<SlurmEngine::Steps> SlurmEngine::read_steps(const OwnJobs& jobs) {
  Steps steps;
  const auto is_running = [](const auto& entry) {
    return !is_slurm_job_pending(entry.second) && !is_slurm_job_over(entry.second);
  };
  if (std::ranges::none_of(jobs, is_running)) return steps;
  for (SlurmStep& step : parse_slurm_steps(TRY(setup_.slurm->run(squeue({"-s"}, kStepFormat))))) {
    const auto key = std::pair(step.job, step.name);
    steps.emplace(key, std::move(step));
  }
  return steps;
}

// The files are read between the two lists: an agent that ran before the steps were listed, and has
// no step, has ended. Its host may have failed, and so may one for which a job waits: then the
// hosts are listed too.
Result<SlurmEngine::Jobs> SlurmEngine::read_jobs() {
  const OwnJobs jobs = TRY(read_own_jobs());
  read_files(jobs);
  const Steps steps = TRY(read_steps(jobs));
  const auto step_of = [&](const SlurmJob& job, int index) {
    const auto step = steps.find({job.id, slurm_step_name(index)});
    return step == steps.end() ? nullptr : &step->second;
  };
  std::set<model::NodeName> lost;
  bool is_pending = false;
  for (const auto& [attempt, job] : jobs) {
    is_pending = is_pending || is_slurm_job_pending(job);
    for (int index = 0; index < job.host_count; ++index) {
      const model::NodeName node{attempt.generation, {attempt.id, index}};
      if (files_.at(node).has_started && !step_of(job, index)) lost.insert(node);
    }
  }
  const bool has_news = !std::ranges::includes(lost_, lost);
  if (next_hosts_.passed() || has_news || (is_pending && young_hosts_.passed())) TRY(read_hosts());
  lost_ = std::move(lost);
  Jobs found;
  awaited_.clear();
  for (const auto& [attempt, job] : jobs) {
    found.attempts.insert(attempt);
    const model::NodeName first{attempt.generation, {attempt.id, 0}};
    const auto folder = host::node_folder(setup_.home, first);
    if (step_of(job, 0)) awaited_.push_back(step_end_file(folder));
    if (is_slurm_job_pending(job) && files_.at(first).slurm_chose_host)
      awaited_.push_back(step_host_file(folder));
    for (int index = 0; index < job.host_count; ++index)
      add_node({attempt.generation, {attempt.id, index}}, job, step_of(job, index), found);
  }
  return found;
}

void SlurmEngine::add_node(const model::NodeName& node, const SlurmJob& job, const SlurmStep* step,
                           Jobs& jobs) const {
  auto seen = observe_slurm_node(job, step, files_.at(node), hosts_);
  if (seen.phase == model::NodePhase::gone && job.has_duplicate)  // whose agent may still run
    seen = {.has_agent = false, .handle = seen.handle, .host = seen.host};
  if (seen.phase == model::NodePhase::gone)
    jobs.kills[node] = {};
  else if (step || is_slurm_job_pending(job))
    jobs.kills[node] = {"scancel", seen.handle};
  const auto record = records_.find(node);
  jobs.nodes.push_back({.node = node,
                        .seen = std::move(seen),
                        .record = record == records_.end() ? nullptr : record->second});
}

// If Slurm has chosen the hosts, those of a job are in the order of its nodes until one has failed.
std::string chosen_host(const std::filesystem::path& folder, int index, const SlurmJob& job) {
  std::string written = read_file(step_host_file(folder)).value_or("");
  written.resize(std::min(written.find('\n'), written.size()));
  if (!written.empty() || is_slurm_job_pending(job) || std::ssize(job.hosts) != job.host_count)
    return written;
  return job.hosts[static_cast<std::size_t>(index)];
}

SlurmNodeFiles SlurmEngine::files_of(const model::NodeName& node, const SlurmJob& job) {
  const auto folder = host::node_folder(setup_.home, node);
  const host::OwnersAccess as_owner(folder);  // its files may be links
  auto& record = records_[node];
  if (!record)
    record = std::make_shared<const LaunchRecord>(launch_record(read_launch_file(folder)));
  const bool is_chosen = record->host.empty() && record->error.empty();
  SlurmNodeFiles files{.host = is_chosen ? chosen_host(folder, node.id.index, job) : record->host,
                       .slurm_chose_host = is_chosen,
                       .has_started = has_started(folder),
                       .step_ended = file_exists(step_end_file(folder))};
  if (!files.step_ended) return files;
  // Written by srun and slurmstepd before the end of the step, so it is read once.
  const auto [end, is_new] = step_outputs_.try_emplace(node);
  if (is_new) end->second = tail_of(host::NodeFiles{folder}.agent_log());
  if (!files.has_started) files.start_error = slurm_error_words(end->second);
  files.out_of_memory = tells_out_of_memory(end->second);
  return files;
}

// The answer of an sbatch was lost, and it had its effect after a later list.
void SlurmEngine::cancel_duplicate(const SlurmJob& job) {
  LS_LOG(warning, "Slurm has two jobs for an attempt; job {} is cancelled", job.id);
  (void)setup_.slurm->run({"scancel", format("{}", job.id)});
}

void SlurmEngine::publish(Result<Jobs> jobs) {
  const Lock lock(mutex_);
  changed_.notify_all();
  if (!jobs) {
    if (problem_ != jobs.error().message) LS_LOG(warning, "{}", jobs.error().message);
    problem_ = jobs.error().message;
    return;
  }
  if (!problem_.empty()) LS_LOG(info, "Slurm answers again");
  problem_.clear();
  answered_ = setup_.clock.now();
  jobs_ = *std::move(jobs);
  for (auto entry = submissions_.begin(); entry != submissions_.end();) {
    const Submission& submission = entry->second;
    const bool is_shown =
        submission.state == Submission::State::submitted && submission.list < jobs_.number;
    const bool is_killed =
        has_no_job(submission) && submission.killed.size() >= submission.gang->nodes.size();
    const bool is_forgotten =
        submission.state == Submission::State::failed && submission.forgotten.passed();
    const bool is_done =
        is_shown || is_killed || is_forgotten || jobs_.attempts.contains(entry->first);
    entry = is_done ? submissions_.erase(entry) : std::next(entry);
  }
}

// A node that the list does not have is gone; one that is about to have its step keeps its request.
void SlurmEngine::execute_kills() {
  std::set<std::vector<std::string>> calls;
  {
    const Lock lock(mutex_);
    if (!problem_.empty()) return;
    for (auto node = kills_.begin(); node != kills_.end();) {
      const auto call = jobs_.kills.find(*node);
      const bool is_listed = std::ranges::binary_search(jobs_.nodes, *node, {}, &ListedNode::node);
      if (call != jobs_.kills.end() && !call->second.empty()) calls.insert(call->second);
      const bool waits =
          (is_listed && call == jobs_.kills.end()) || submissions_.contains(node->attempt());
      node = waits ? std::next(node) : kills_.erase(node);
    }
  }
  for (const auto& call : calls)
    if (auto done = setup_.slurm->run(call); !done)
      LS_LOG(warning, "{} failed: {}", joined(call, " "), done.error().message);
}

// One at a time: a large gang takes a while, and the list must stay young.
std::shared_ptr<const Gang> SlurmEngine::due_gang() {
  if (!problem_.empty()) return nullptr;
  for (auto& [attempt, submission] : submissions_) {
    if (submission.state != Submission::State::queued || !submission.retry.passed()) continue;
    if (submission.list >= jobs_.number || !submission.killed.empty()) continue;
    submission.list = lists_begun_;
    return submission.gang;
  }
  return nullptr;
}

void SlurmEngine::submit_next() {
  for (;;) {
    std::shared_ptr<const Gang> gang;
    {
      const Lock lock(mutex_);
      if (ending_) return;
      gang = due_gang();
    }
    if (!gang) return;
    record_submission(gang->attempt, submit_job(*gang));
  }
}

Result<std::optional<Account>> SlurmEngine::account_of_job(const Gang& gang) const {
  if (!setup_.account_of) return std::optional<Account>();
  auto account = setup_.account_of(gang.program);
  if (!account) return Error{Code::invalid, account.error().message};
  return account;
}

// The user passes through the daemon's folders to the files of the job, and lists none of them.
Result<void> SlurmEngine::give_files(const Account& account, const Gang& gang,
                                     const SlurmJobRequest& job) {
  const auto top = setup_.home.parent_path();
  const auto output = job_output_file(job.folder);
  TRY(open_file(output, O_WRONLY | O_CREAT | O_APPEND));
  TRY(give_to(account, output));
  TRY(let_pass(top, setup_.options.program));
  for (const SlurmJobNode& node : job.nodes) {
    TRY(let_pass(top, node.folder));
    TRY(give_to(account, host::NodeFiles{node.folder}.launch_file()));
    TRY(give_to(account, node.folder));
  }
  if (!gang.make_checkpoint_folder) return {};
  const auto checkpoints = setup_.home / gang.program.checkpoint_folder;
  TRY(let_pass(top, checkpoints));
  return give_to(account, checkpoints);
}

// An attempt of which an agent ever ran is not submitted again.
Result<std::int64_t> SlurmEngine::submit_job(const Gang& gang) {
  SlurmJobRequest job{.attempt = gang.attempt,
                      .memory = gang.memory,
                      .time_limit = gang.program.time_left + kJobTimeMargin,
                      .account = TRY(account_of_job(gang)),
                      .asked = gang.slurm.value_or(model::SlurmRequest())};
  SlurmJobSize size = TRY(slurm_job_size(gang, hosts_));
  job.cores = size.cores;
  job.gpus = size.gpus;
  job.partition = std::move(size.partition);
  if (!size.gpu_type.empty()) job.asked.gpu_type = std::move(size.gpu_type);
  job.excluded = std::move(size.excluded);
  for (const NodePlacement& placement : gang.nodes) {
    const host::LaunchSpec launch = launch_spec(gang, placement, setup_.home);
    if (has_started(launch.node_folder))
      return Error{Code::already_exists, "its agents were started before, and have ended"};
    TRY(write_launch_file(job.account ? with_variables_of(*job.account, launch) : launch));
    if (gang.make_checkpoint_folder) TRY(make_folders(launch.checkpoint_folder));
    const SlurmHost* host = find_slurm_host(hosts_, placement.host);
    job.nodes.push_back(
        {placement.index, host ? name_for_slurm(*host) : placement.host, launch.node_folder});
    job.folder = std::filesystem::path(launch.node_folder).parent_path();
  }
  if (job.account) TRY(give_files(*job.account, gang, job));
  TRY(write_file(job_script_file(job.folder), job_script(job, setup_.options)));
  return parse_submitted_job(TRY(setup_.slurm->run(sbatch_command(job, setup_.options))));
}

// After a call without an answer, a new list must show that it had no effect. So it must if an
// agent was started: a call of an earlier daemon may have had its effect after the last list.
void SlurmEngine::record_submission(const model::AttemptName& attempt,
                                    const Result<std::int64_t>& job) {
  const Lock lock(mutex_);
  const auto found = submissions_.find(attempt);
  if (found == submissions_.end()) return;
  Submission& submission = found->second;
  submission.list = lists_begun_;
  if (job) {
    LS_LOG(info, "Slurm has job {} for {}", *job, text(attempt.id));
    submission.state = Submission::State::submitted;
    submission.job = *job;
    submission.reason = format("Slurm has queued job {}", *job);
    return;
  }
  if (job.error().code == Code::already_exists && !submission.had_agents) {
    submission.had_agents = true;
    return;
  }
  const bool waits = job.error().code == Code::unavailable || job.error().code == Code::not_found;
  LS_LOG(warning, "submitting {} to Slurm failed: {}", text(attempt.id), job.error().message);
  submission.reason = job.error().message;
  if (waits) {
    submission.retry = Deadline::after(submission.pause);
    submission.pause = std::min(submission.pause * 2, kSubmitPauseMax);
    return;
  }
  submission.state = Submission::State::failed;
  submission.blame = job.error().code == Code::invalid || is_slurm_refusal(submission.reason)
                         ? model::EndBlame::refusal
                         : model::EndBlame::engine;
  submission.forgotten = Deadline::after(kSlurmFailureListed);
}

}  // namespace lockstep::engine
