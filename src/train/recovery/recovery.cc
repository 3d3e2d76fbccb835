#include "train/recovery/recovery.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "base/os/environment.h"
#include "base/os/files.h"
#include "base/os/fork_guard.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/membership.h"
#include "comm/torch/connect.h"
#include "net/crypto.h"
#include "train/checkpoint/random_state.h"
#include "train/checkpoint/resume.h"
#include "train/faults.h"
#include "train/recovery/describe_recovery.h"
#include "train/recovery/restore_replacements.h"

namespace lockstep::train {
namespace {

using Steady = std::chrono::steady_clock;

Duration since(Steady::time_point begin) {
  return std::chrono::duration_cast<Duration>(Steady::now() - begin);
}

Result<std::int64_t> number_in(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  if (found == environment.end())
    return Error{Code::invalid,
                 format("{} is not set: start ranks by lockstep run, or by torchrun", name)};
  char* end = nullptr;
  const auto value = std::strtol(found->second.c_str(), &end, 10);
  if (found->second.empty() || *end != '\0' || value < 0)
    return Error{Code::invalid, format("{}={}: expected a number", name, found->second)};
  return value;
}

// The errors of a transfer that a rank failure ended; all other errors are the program's own.
bool may_be_rank_failure(const Error& error) {
  return error.code == Code::unavailable || error.code == Code::cancelled ||
         error.code == Code::peer_lost || error.code == Code::timeout;
}

Result<MemberStates> parse_member_states(const comm::Membership::MemberList& members) {
  MemberStates states;
  for (const auto& [member, encoded] : members) {
    auto& state = states[member];
    if (encoded) state = TRY(parse_member_state(*encoded));
  }
  return states;
}

// Connections that are lost again before a step is complete have a lasting cause.
constexpr int kReconnectionsMost = 3;

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void add(std::vector<int>& to, const std::vector<int>& more) {
  to.insert(to.end(), more.begin(), more.end());
  std::sort(to.begin(), to.end());
  to.erase(std::unique(to.begin(), to.end()), to.end());
}

// Adds the ranks lost in the plan before, which another rank failure broke: they are not reported
// yet.
void merge_unreported(RecoveryPlan& plan, const RecoveryPlan& broken) {
  add(plan.lost, broken.lost);
  add(plan.leaving, broken.leaving);
}

}  // namespace

Result<RecoveryOptions> recovery_options_from_environment() {
  RecoveryOptions options;
  const auto environment = own_environment();
  if (const auto found = environment.find("LOCKSTEP_ON_FAILURE"); found != environment.end()) {
    const auto& value = found->second;
    if (value == "shrink")
      options.on_failure = RecoveryMode::shrink;
    else if (value == "wait")
      options.on_failure = RecoveryMode::wait;
    else if (value != "restart")
      return Error{Code::invalid,
                   format("LOCKSTEP_ON_FAILURE={}: expected restart, shrink or wait", value)};
  }
  const auto replaces = environment.find("LOCKSTEP_REPLACES");
  options.is_replacement = replaces != environment.end() && replaces->second == "1";
  return options;
}

struct Recovery::Impl {
  RecoveryOptions options;
  int member = 0;
  int members = 1;
  // Null: errors are not recovered from. Shared with groups under construction, which the loss of a
  // member ends.
  std::shared_ptr<comm::Membership> membership;
  std::unique_ptr<ForkGuard> guard;
  std::optional<RecoveryPlan> plan;  // of the current groups
  bool is_replacement = false;       // and its state is not restored yet
  std::vector<std::int64_t> slots;   // the member in each; empty before the first step
  bool needs_checkpoint = false;     // the state comes from a checkpoint
  bool all_present = false;          // in the last rendezvous: no rank failure was the cause
  std::optional<int> first_lost;     // the first member that was missing
  MemberState step_start;            // at the start of the current step
  // The setup at the first step.
  struct InitialSetup {
    Policy policy;
    bool optimizer_replicated = true;
    int shards = 1;
    std::int64_t global_batch = 1;
  };
  std::optional<InitialSetup> initial_setup;
  int reconnections = 0;  // since the last complete step

  Result<void> join();
  Result<void> adopt_plan(const comm::Membership::MemberList& member_list);
  int generation() const { return membership ? membership->generation() : 0; }
  int rank() const { return plan ? plan->slot_of(member).value() : member; }
  // Bounds the recovery until no other member is lost: each may be restarted three times.
  int failures_max() const { return 4 * members; }
  int ranks() const { return plan ? static_cast<int>(plan->slots.size()) : members; }
  std::vector<int> living() const { return plan ? plan->slots : numbers(members); }
  Result<c10::intrusive_ptr<c10d::ProcessGroup>> group(comm::GroupRanks group_members,
                                                       Duration bound) const;
  Result<Mesh> new_mesh() const;
  Result<void> find_slots(const RecoverableTraining& training);
  void record_step_start(std::int64_t step, const RecoverableTraining& training);
  MemberState member_state(const RecoverableTraining& training) const;
  Result<RecoveryPlan> rendezvous(const Error& cause, const MemberState& mine);
  Result<RecoveryPlan> reconnect(const Error& cause, const MemberStates& states);
  Result<void> rejoin(const Error& cause);
  Result<RecoveryOutcome> recover_or_fail(const Error& cause, const RecoverableTraining& training);
  Error report_end(Error error) const;
  Result<void> adopt_mesh(Mesh mesh, const RecoverableTraining& training);
  Policy policy_by_plan() const;
  Result<RecoveryOutcome> restore_state(const RecoverableTraining& training);
  Result<void> restore_from_memory(const RecoverableTraining& training);
  Result<std::int64_t> restore_from_checkpoint(const RecoverableTraining& training);
  std::string rescale(const RecoverableTraining& training) const;
};

Recovery::Recovery(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Recovery::~Recovery() = default;

Result<std::unique_ptr<Recovery>> Recovery::start(const RecoveryOptions& options) {
  enable_fault_reports();
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  if (auto joined = impl->join(); !joined) return impl->report_end(std::move(joined).error());
  return std::unique_ptr<Recovery>(new Recovery(std::move(impl)));
}

Result<void> Recovery::Impl::join() {
  const auto environment = own_environment();
  const auto address = environment.find("LOCKSTEP_RENDEZVOUS");
  if (options.on_failure == RecoveryMode::restart || address == environment.end()) return {};
  member = static_cast<int>(TRY(number_in(environment, "RANK")));
  members = static_cast<int>(TRY(number_in(environment, "WORLD_SIZE")));
  const auto file = environment.find("LOCKSTEP_SECRET_FILE");
  if (file == environment.end())
    return Error{Code::invalid, "LOCKSTEP_RENDEZVOUS is set, but LOCKSTEP_SECRET_FILE is not"};
  const auto secret = TRY(net::Secret::from_hex(TRY(read_file(file->second))));
  auto client = TRY(comm::RendezvousClient::connect(
      address->second, secret, Deadline::after(options.peer_timeout),
      TRY(net::connection_timeout_from(environment))));
  if (!options.is_replacement) {
    membership = std::make_shared<comm::Membership>(
        TRY(comm::Membership::join(std::move(client), member, members)));
  } else {
    auto entered = TRY(comm::Membership::join_as_replacement(
        std::move(client), member, members, words_of({.is_replacement = true}),
        Deadline::after(options.peer_timeout)));
    membership = std::make_shared<comm::Membership>(std::move(entered.membership));
    if (entered.members) TRY(adopt_plan(*entered.members));
  }
  // A forked child that kept it open would hide the loss of this rank.
  guard = std::make_unique<ForkGuard>();
  guard->add(membership->fd());
  return {};
}

// For a replacement, with the slots of the others' plan.
Result<void> Recovery::Impl::adopt_plan(const comm::Membership::MemberList& member_list) {
  plan = TRY(plan_to_replace(TRY(parse_member_states(member_list))));
  slots.assign(plan->slots.begin(), plan->slots.end());
  is_replacement = true;
  return {};
}

// All ranks with their current numbers. At the start they may come late, later they are all
// present.
Result<c10::intrusive_ptr<c10d::ProcessGroup>> Recovery::Impl::group(comm::GroupRanks group_members,
                                                                     Duration bound) const {
  if (!membership) return comm::connect_from_environment(bound);
  return comm::process_group_at_rendezvous(
      {.rank = rank(),
       .size = ranks(),
       .members = std::move(group_members),
       .timeout = bound,
       .rendezvous_timeout = plan ? options.rendezvous_timeout : bound,
       .generation = generation(),
       .membership = membership});
}

// By rank: the ranks of a replica were placed close to each other.
Result<Mesh> Recovery::Impl::new_mesh() const {
  if (membership) TRY(membership->watch(living()));
  auto mesh = TRY(Mesh::replicas(
      TRY(group(comm::GroupRanks::world(living()), options.peer_timeout)), options.peer_timeout));
  if (plan) return mesh.with_consecutive_shard_groups(plan->shards);
  return mesh;
}

// If a rank is lost during the rendezvous with a replacement, all repeat it, the replacement too.
Result<Mesh> Recovery::mesh() {
  auto& self = *impl_;
  if (self.is_replacement) defer_fault_reports();
  for (int deaths = 0;; ++deaths) {
    auto mesh = self.new_mesh();
    if (mesh || !self.membership) return mesh;
    const bool again =
        self.is_replacement && may_be_rank_failure(mesh.error()) && deaths < self.failures_max();
    if (!again) return self.report_end(std::move(mesh).error());
    if (auto came = self.rejoin(mesh.error()); !came)
      return self.report_end(std::move(came).error());
  }
}

Result<Comm> Recovery::new_group(Duration bound) {
  return Comm(TRY(impl_->group({"checkpoints", impl_->living()}, bound)), bound);
}

bool Recovery::is_replacement() const { return impl_->is_replacement; }

RecoveryOptions& Recovery::options() { return impl_->options; }

int Recovery::generation() const { return impl_->generation(); }

// Each rank sends its slot: a group may order its ranks in another way than by number.
Result<void> Recovery::Impl::find_slots(const RecoverableTraining& training) {
  auto& mesh = training.model.mesh();
  const auto slot = mesh.replicate().rank() * mesh.shard().size() + mesh.shard().rank();
  const auto slots_by_rank = TRY(mesh.world().all_gather(slot, "the ranks' slots"));
  slots.resize(slots_by_rank.size());
  for (std::size_t rank = 0; rank < slots_by_rank.size(); ++rank)
    slots.at(static_cast<std::size_t>(slots_by_rank[rank])) = static_cast<std::int64_t>(rank);
  return {};
}

Result<void> Recovery::begin_step(std::int64_t step, const RecoverableTraining& training) {
  if (!impl_->membership) return {};
  defer_fault_reports();
  if (impl_->slots.empty()) TRY(impl_->find_slots(training));
  if (impl_->initial_setup && step > impl_->step_start.step) impl_->reconnections = 0;
  impl_->record_step_start(step, training);
  return {};
}

void Recovery::Impl::record_step_start(std::int64_t step, const RecoverableTraining& training) {
  if (!initial_setup) {
    const auto& policy = training.model.policy();
    initial_setup =
        InitialSetup{policy, policy.optimizer == policy.gradients,
                     training.model.mesh().shard().size(), training.sampler.global_batch()};
  }
  step_start.step = step;
  step_start.decided_steps_before = training.optimizer.decided_steps();
  step_start.seed = training.sampler.state().seed;
  step_start.cursor = training.sampler.state().cursor;
  step_start.global_batch = training.sampler.global_batch();
}

MemberState Recovery::Impl::member_state(const RecoverableTraining& training) const {
  if (is_replacement) return {.is_replacement = true};
  auto state = step_start;
  state.slots = slots;
  // According to the last plan, even if this rank did not complete it.
  state.shards = plan ? plan->shards : initial_setup->shards;
  state.optimizer_replicated = initial_setup->optimizer_replicated;
  state.needs_checkpoint = needs_checkpoint;
  state.has_checkpoints = !options.checkpoint_folder.empty();
  state.lost_connection = has_lost_connection() && reconnections < kReconnectionsMost;
  state.decided_steps = training.optimizer.decided_steps();
  state.awaits_decision = training.optimizer.awaits_decision();
  state.norm = training.optimizer.last_norm();
  state.optimizer_steps = training.optimizer.steps();
  return state;
}

// The plan, which is the same on every surviving rank. `cause`: the error if no rank was lost.
Result<RecoveryPlan> Recovery::Impl::rendezvous(const Error& cause, const MemberState& mine) {
  const auto encoded = words_of(mine);
  auto agreed = membership->agree_on_members(encoded, Deadline::after(options.peer_timeout));
  // The other ranks no longer expect a process that failed in an earlier rendezvous. A replacement
  // has no state yet, so it joins again.
  if (!agreed && mine.is_replacement && agreed.error().code == Code::denied) {
    const auto entered =
        TRY(membership->rejoin_as_replacement(encoded, Deadline::after(options.peer_timeout)));
    return plan_to_replace(TRY(parse_member_states(entered)));
  }
  auto member_list = TRY(std::move(agreed));
  // A rank that left before has no slot, and is not missed.
  const auto missed = std::find_if(slots.begin(), slots.end(), [&](std::int64_t slot) {
    return !member_list.at(static_cast<int>(slot)).has_value();
  });
  all_present = missed == slots.end();
  if (all_present) return reconnect(cause, TRY(parse_member_states(member_list)));
  first_lost = static_cast<int>(*missed);
  if (options.on_failure == RecoveryMode::shrink)
    return plan_to_shrink(TRY(parse_member_states(member_list)));
  member_list = TRY(membership->wait_for_replacements(
      std::move(member_list), Deadline::after(options.replacement_timeout)));
  return plan_to_replace(TRY(parse_member_states(member_list)));
}

// No rank was lost. If connections were lost, the same ranks connect again; else returns `cause`.
Result<RecoveryPlan> Recovery::Impl::reconnect(const Error& cause, const MemberStates& states) {
  const bool lost_connection = std::any_of(states.begin(), states.end(), [](const auto& each) {
    return each.second && each.second->lost_connection;
  });
  if (!lost_connection) return cause;
  ++reconnections;
  return plan_to_reconnect(states);
}

// Before a replacement has a model.
Result<void> Recovery::Impl::rejoin(const Error& cause) {
  LS_LOG(warning, "rank {}: {}; it meets the others once more", member, cause.message);
  clear_deferred_fault();
  plan = TRY(rendezvous(cause, {.is_replacement = true}));
  return {};
}

// Reports to the agent that the attempt ends by a loss, not by a failure of the program: so a new
// attempt resumes from the newest checkpoint. No new attempt follows a failure of the program.
Error Recovery::Impl::report_end(Error error) const {
  if (error.code == Code::invalid) return error;
  const auto lost = first_lost ? first_lost : membership ? membership->lost_member() : std::nullopt;
  if (!all_present && lost)
    report_fault(error, *lost);
  else if (!report_deferred_fault() && !all_present)
    report_fault(error, -1);
  return error;
}

Result<RecoveryOutcome> Recovery::recover(const Error& cause, const RecoverableTraining& training) {
  auto& self = *impl_;
  if (!self.membership || !may_be_rank_failure(cause)) return cause;
  auto recovered = self.recover_or_fail(cause, training);
  if (!recovered) return self.report_end(std::move(recovered).error());
  clear_deferred_fault();
  return recovered;
}

Result<RecoveryOutcome> Recovery::Impl::recover_or_fail(const Error& cause,
                                                        const RecoverableTraining& training) {
  // Before the first step no state is lost that a new attempt does not have.
  if (slots.empty()) return cause;
  LS_LOG(warning, "{}", cause.message);
  Error last = cause;
  const auto noticed = Steady::now();
  std::vector<int> came;  // by plans that another rank failure broke
  for (int tries = 0; tries < failures_max(); ++tries) {
    const auto begin = Steady::now();
    // Before the rendezvous: when all have sent their state, no rank writes into another's memory.
    training.model.mesh().leave();
    auto next = TRY(rendezvous(last, member_state(training)));
    if (tries > 0) {
      merge_unreported(next, *plan);
      add(came, plan->replacements);
    }
    plan = std::move(next);
    needs_checkpoint = needs_checkpoint || plan->from_checkpoint;
    const auto rendezvous_time = since(begin);
    slots.assign(plan->slots.begin(), plan->slots.end());
    if (!plan->slot_of(member)) {
      return RecoveryOutcome{.leaves = true,
                             .step = plan->step,
                             .description = describe_recovery(*plan, plan->step, since(noticed)),
                             .lost = plan->lost};
    }
    auto outcome = new_mesh();
    const auto connected_after = since(begin);
    auto entered = outcome ? adopt_mesh(*std::move(outcome), training)
                           : Result<void>(std::move(outcome).error());
    auto recovered = entered ? restore_state(training) : Result<RecoveryOutcome>(entered.error());
    if (recovered) {
      recovered->rendezvous_time = rendezvous_time;
      recovered->connect_time = connected_after - rendezvous_time;
      auto complete_plan = *plan;
      add(complete_plan.replacements, came);
      recovered->description =
          describe_recovery(complete_plan, recovered->step, since(noticed)) + rescale(training);
      return recovered;
    }
    // Another rank was lost meanwhile: the remaining members repeat the rendezvous.
    last = std::move(recovered).error();
    if (!may_be_rank_failure(last)) break;
  }
  return last;
}

Result<RecoveryOutcome> Recovery::complete_replacement(const RecoverableTraining& training) {
  LS_CHECK(impl_->is_replacement);
  const auto begin = Steady::now();
  auto recovered = impl_->restore_state(training);
  if (!recovered && may_be_rank_failure(recovered.error()))
    return recover(recovered.error(), training);
  if (!recovered) return impl_->report_end(std::move(recovered).error());
  recovered->description = describe_recovery(*impl_->plan, recovered->step, since(begin));
  return recovered;
}

// Ranks that keep their shards keep their state; otherwise all of it is resharded.
Result<void> Recovery::Impl::adopt_mesh(Mesh mesh, const RecoverableTraining& training) {
  if (!plan->reshards) return training.model.regroup(std::move(mesh));
  TRY(training.model.reshard(std::move(mesh), policy_by_plan()));
  return training.optimizer.rebuild();
}

Policy Recovery::Impl::policy_by_plan() const {
  auto policy = initial_setup->policy;
  const bool keeps = policy.parameters > 1 && plan->shards > 1;
  policy.parameters = policy.parameters == 1 ? 1 : plan->shards;
  policy.gradients = plan->shards;
  policy.optimizer = initial_setup->optimizer_replicated ? plan->shards : ranks();
  policy.keep_gathered = policy.keep_gathered && keeps;
  return policy;
}

// In the new groups, with all ranks.
Result<RecoveryOutcome> Recovery::Impl::restore_state(const RecoverableTraining& training) {
  RecoveryOutcome recovered{
      .step = plan->step, .lost = plan->lost, .reports = plan->reporting_member() == member};
  if (plan->from_checkpoint)
    recovered.step = TRY(restore_from_checkpoint(training));
  else
    TRY(restore_from_memory(training));
  recovered.repeated_steps = plan->step - recovered.step;
  is_replacement = needs_checkpoint = false;
  // A failure before the next step starts goes back to this state; for ranks that read the
  // checkpoint, to the checkpoint.
  record_step_start(recovered.step, training);
  TRY(training.reopen());
  return recovered;
}

// All ranks load the newest intact checkpoint.
Result<std::int64_t> Recovery::Impl::restore_from_checkpoint(const RecoverableTraining& training) {
  auto& [model, optimizer, sampler, reopen] = training;
  const OptimizerCallbacks resumed{std::string(optimizer.method()),
                                   [&](const Manifest& manifest) {
                                     std::vector<std::string> names;
                                     for (const auto& tensor : manifest.tensors)
                                       names.push_back(tensor.name);
                                     return optimizer.make_state(names);
                                   },
                                   [&](std::int64_t steps) { optimizer.set_steps(steps); }};
  optimizer.set_decided_steps(plan->decided_steps);
  const auto step = TRY(resume(options.checkpoint_folder, model, resumed, sampler));
  if (step > 0) return step;
  return Error{Code::not_found,
               format("no other rank holds the lost state, and {} has no checkpoint "
                      "yet",
                      options.checkpoint_folder.string())};
}

// Describes the change for the log; empty without one. Relative to the initial size, so that
// rounding does not add up.
std::string Recovery::Impl::rescale(const RecoverableTraining& training) const {
  if (options.batch_scaling == BatchScaling::fixed || !initial_setup || ranks() == members)
    return "";
  const auto first = static_cast<double>(initial_setup->global_batch);
  const auto batch = std::max<std::int64_t>(ranks(), std::llround(first * ranks() / members));
  const double factor = static_cast<double>(batch) / first;
  training.sampler.set_global_batch(batch);
  training.optimizer.scale_learning_rate(factor);
  return format("; the global batch is {} samples now, the learning rate {:.3g} of what it was",
                batch, factor);
}

Result<void> Recovery::Impl::restore_from_memory(const RecoverableTraining& training) {
  auto& [model, optimizer, sampler, reopen] = training;
  if (!is_replacement && optimizer.decided_steps() < plan->decided_steps)
    TRY(optimizer.apply_missed_step(plan->norm));
  TRY(restore_replacements(*plan, training));
  if (is_replacement) {
    optimizer.set_steps(plan->optimizer_steps);
    optimizer.set_decided_steps(plan->decided_steps);
    seed_random(training.model.device(), plan->seed, plan->step, rank());
  }
  TRY(model.sync_parameters());
  return sampler.restore({plan->seed, plan->cursor});
}

}  // namespace lockstep::train
