#include "train/recovery/recovery.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/check.h"
#include "base/environment.h"
#include "base/files.h"
#include "base/fork_guard.h"
#include "base/format.h"
#include "base/log.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/crew.h"
#include "comm/torch/connect.h"
#include "net/crypto.h"
#include "train/checkpoint/random.h"
#include "train/checkpoint/resume.h"
#include "train/faults.h"
#include "train/recovery/refill.h"
#include "train/recovery/story.h"

namespace lockstep {
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

// What a transfer that a death ended says; all else is the program's own.
bool may_be_a_death(const Error& error) {
  return error.code == Code::unavailable || error.code == Code::cancelled ||
         error.code == Code::peer_lost || error.code == Code::timeout;
}

Result<Standings> standings_in(const Crew::Roll& roll) {
  Standings standings;
  for (const auto& [member, words] : roll) {
    auto& standing = standings[member];
    if (words) standing = TRY(standing_in(*words));
  }
  return standings;
}

// Connections that are lost again before a step is whole are not lost by chance.
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

// Of the plan before, which another death broke: nobody has told who was gone then.
void tell_too(RecoveryPlan& plan, const RecoveryPlan& broken) {
  add(plan.gone, broken.gone);
  add(plan.leaving, broken.leaving);
}

}  // namespace

Result<RecoveryOptions> recovery_options_from_environment() {
  RecoveryOptions options;
  const auto environment = own_environment();
  if (const auto found = environment.find("LOCKSTEP_ON_FAILURE"); found != environment.end()) {
    const auto& words = found->second;
    if (words == "shrink")
      options.on_failure = OnDeath::shrink;
    else if (words == "wait")
      options.on_failure = OnDeath::wait;
    else if (words != "restart")
      return Error{Code::invalid,
                   format("LOCKSTEP_ON_FAILURE={}: expected restart, shrink or wait", words)};
  }
  const auto replaces = environment.find("LOCKSTEP_REPLACES");
  options.replaces = replaces != environment.end() && replaces->second == "1";
  return options;
}

struct Recovery::Impl {
  RecoveryOptions options;
  int member = 0;
  int members = 1;
  // Null: an error is an error. Shared with groups being made, which its members' deaths end.
  std::shared_ptr<Crew> crew;
  std::unique_ptr<ForkGuard> guard;
  std::optional<RecoveryPlan> plan;  // by which the groups were made last
  bool newcomer = false;             // and its state is not there yet
  std::vector<std::int64_t> seats;   // the member on each; empty before the first step
  bool unread = false;               // the state is to come from storage
  bool all_met = false;              // in the last meeting: no death was the cause
  std::optional<int> dead;           // the first member that it missed
  Standing before;                   // of the step that was begun
  // As the first step found it.
  struct Beginning {
    Policy policy;
    bool copied = true;
    int shards = 1;
    std::int64_t batch = 1;
  };
  std::optional<Beginning> beginning;
  int connected_again = 0;  // since the last whole step

  Result<void> join();
  Result<void> come_in(const Crew::Roll& roll);
  int generation() const { return crew ? crew->generation() : 0; }
  int rank() const { return plan ? plan->seat_of(member).value() : member; }
  // Bounds what goes on until no other member dies: each may be started again three times.
  int deaths_max() const { return 4 * members; }
  int ranks() const { return plan ? static_cast<int>(plan->seats.size()) : members; }
  std::vector<int> living() const { return plan ? plan->seats : numbers(members); }
  Result<c10::intrusive_ptr<c10d::ProcessGroup>> group(Members group_members, Duration bound) const;
  Result<Mesh> new_mesh() const;
  Result<void> find_seats(const Training& training);
  void keep_beginning(std::int64_t step, const Training& training);
  Standing standing(const Training& training) const;
  Result<RecoveryPlan> meet(const Error& cause, const Standing& mine);
  Result<RecoveryPlan> reconnect(const Error& cause, const Standings& standings);
  Result<void> come_in_again(const Error& cause);
  Result<Recovered> recover_or_fail(const Error& cause, const Training& training);
  Error end_by(Error error) const;
  Result<void> enter(Mesh mesh, const Training& training);
  Policy policy_by_plan() const;
  Result<Recovered> go_on(const Training& training);
  Result<void> take_state(const Training& training);
  Result<std::int64_t> read_state(const Training& training);
  std::string rescale(const Training& training) const;
};

Recovery::Recovery(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Recovery::~Recovery() = default;

Result<std::unique_ptr<Recovery>> Recovery::start(const RecoveryOptions& options) {
  report_faults();
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  if (auto joined = impl->join(); !joined) return impl->end_by(std::move(joined).error());
  return std::unique_ptr<Recovery>(new Recovery(std::move(impl)));
}

Result<void> Recovery::Impl::join() {
  const auto environment = own_environment();
  const auto place = environment.find("LOCKSTEP_RENDEZVOUS");
  if (options.on_failure == OnDeath::restart || place == environment.end()) return {};
  member = static_cast<int>(TRY(number_in(environment, "RANK")));
  members = static_cast<int>(TRY(number_in(environment, "WORLD_SIZE")));
  const auto file = environment.find("LOCKSTEP_SECRET_FILE");
  if (file == environment.end())
    return Error{Code::invalid, "LOCKSTEP_RENDEZVOUS is set, but LOCKSTEP_SECRET_FILE is not"};
  const auto secret = TRY(Secret::from_hex(TRY(read_file(file->second))));
  auto client =
      TRY(RendezvousClient::connect(place->second, secret, Deadline::after(options.patience),
                                    TRY(silence_bound_of(environment))));
  if (!options.replaces) {
    crew = std::make_shared<Crew>(TRY(Crew::join(std::move(client), member, members)));
  } else {
    auto entered = TRY(Crew::enter(std::move(client), member, members, words_of({.newcomer = true}),
                                   Deadline::after(options.patience)));
    crew = std::make_shared<Crew>(std::move(entered.crew));
    if (entered.roll) TRY(come_in(*entered.roll));
  }
  // A forked child that kept it open would hide this rank's death.
  guard = std::make_unique<ForkGuard>();
  guard->add(crew->fd());
  return {};
}

// As a newcomer, where the others' plan has it.
Result<void> Recovery::Impl::come_in(const Crew::Roll& roll) {
  plan = TRY(plan_to_refill(TRY(standings_in(roll))));
  seats.assign(plan->seats.begin(), plan->seats.end());
  newcomer = true;
  return {};
}

// All ranks as they are numbered now. At the start they may come late, later they are all there.
Result<c10::intrusive_ptr<c10d::ProcessGroup>> Recovery::Impl::group(Members group_members,
                                                                     Duration bound) const {
  if (!crew) return connect_from_environment(bound);
  return group_at_meeting_place({.rank = rank(),
                                 .size = ranks(),
                                 .members = std::move(group_members),
                                 .timeout = bound,
                                 .meeting = plan ? options.meeting : bound,
                                 .generation = generation(),
                                 .crew = crew});
}

// By number: whoever stays together in a replica was put there for being close.
Result<Mesh> Recovery::Impl::new_mesh() const {
  if (crew) TRY(crew->watch(living()));
  auto mesh =
      TRY(Mesh::replicas(TRY(group(Members::world(living()), options.patience)), options.patience));
  if (plan) return mesh.cut_by_number(plan->shards);
  return mesh;
}

// A rank that dies while a newcomer meets the others makes them meet once more, and the newcomer
// with them.
Result<Mesh> Recovery::mesh() {
  auto& self = *impl_;
  if (self.newcomer) keep_faults();
  for (int deaths = 0;; ++deaths) {
    auto mesh = self.new_mesh();
    if (mesh || !self.crew) return mesh;
    const bool again = self.newcomer && may_be_a_death(mesh.error()) && deaths < self.deaths_max();
    if (!again) return self.end_by(std::move(mesh).error());
    if (auto came = self.come_in_again(mesh.error()); !came)
      return self.end_by(std::move(came).error());
  }
}

Result<Comm> Recovery::apart(Duration bound) {
  return Comm(TRY(impl_->group({"checkpoints", impl_->living()}, bound)), bound);
}

bool Recovery::joining() const { return impl_->newcomer; }

RecoveryOptions& Recovery::options() { return impl_->options; }

int Recovery::generation() const { return impl_->generation(); }

// Each tells which seat it has: a group may put its ranks in another order than by number.
Result<void> Recovery::Impl::find_seats(const Training& training) {
  auto& mesh = training.model.mesh();
  const auto seat = mesh.replicate().rank() * mesh.shard().size() + mesh.shard().rank();
  const auto told = TRY(mesh.world().gather(seat, "the ranks' seats"));
  seats.resize(told.size());
  for (std::size_t rank = 0; rank < told.size(); ++rank)
    seats.at(static_cast<std::size_t>(told[rank])) = static_cast<std::int64_t>(rank);
  return {};
}

Result<void> Recovery::begin_step(std::int64_t step, const Training& training) {
  if (!impl_->crew) return {};
  keep_faults();
  if (impl_->seats.empty()) TRY(impl_->find_seats(training));
  if (impl_->beginning && step > impl_->before.step) impl_->connected_again = 0;
  impl_->keep_beginning(step, training);
  return {};
}

void Recovery::Impl::keep_beginning(std::int64_t step, const Training& training) {
  if (!beginning) {
    const auto& policy = training.model.policy();
    beginning = Beginning{policy, policy.optimizer == policy.gradients,
                          training.model.mesh().shard().size(), training.sampler.global_batch()};
  }
  before.step = step;
  before.decided_before = training.optimizer.decided();
  before.seed = training.sampler.state().seed;
  before.cursor = training.sampler.state().cursor;
  before.batch = training.sampler.global_batch();
}

Standing Recovery::Impl::standing(const Training& training) const {
  if (newcomer) return {.newcomer = true};
  auto standing = before;
  standing.seats = seats;
  // As the last plan has it, whether or not this rank came to follow it.
  standing.shards = plan ? plan->shards : beginning->shards;
  standing.copied = beginning->copied;
  standing.unread = unread;
  standing.storage = !options.checkpoints.empty();
  standing.cut = has_lost_connection() && connected_again < kReconnectionsMost;
  standing.decided = training.optimizer.decided();
  standing.undecided = training.optimizer.undecided();
  standing.norm = training.optimizer.last_norm();
  standing.optimizer_steps = training.optimizer.steps();
  return standing;
}

// What is to be done, as all the living see it. `cause` if none of them has died.
Result<RecoveryPlan> Recovery::Impl::meet(const Error& cause, const Standing& mine) {
  const auto words = words_of(mine);
  auto met = crew->meet(words, Deadline::after(options.patience));
  // The others miss a process that came here before it and died half-way in. A newcomer holds
  // nothing yet, so it comes in once more.
  if (!met && mine.newcomer && met.error().code == Code::denied) {
    const auto entered = TRY(crew->enter_again(words, Deadline::after(options.patience)));
    return plan_to_refill(TRY(standings_in(entered)));
  }
  auto roll = TRY(std::move(met));
  // One that had left has no seat, and is not missed.
  const auto missed = std::find_if(seats.begin(), seats.end(), [&](std::int64_t seat) {
    return !roll.at(static_cast<int>(seat)).has_value();
  });
  all_met = missed == seats.end();
  if (all_met) return reconnect(cause, TRY(standings_in(roll)));
  dead = static_cast<int>(*missed);
  if (options.on_failure == OnDeath::shrink) return plan_to_shrink(TRY(standings_in(roll)));
  roll = TRY(crew->with_replacements(std::move(roll), Deadline::after(options.replacement)));
  return plan_to_refill(TRY(standings_in(roll)));
}

// All live. Where connections were lost, the same ranks connect once more; else `cause`.
Result<RecoveryPlan> Recovery::Impl::reconnect(const Error& cause, const Standings& standings) {
  const bool cut = std::any_of(standings.begin(), standings.end(),
                               [](const auto& each) { return each.second && each.second->cut; });
  if (!cut) return cause;
  ++connected_again;
  return plan_to_reconnect(standings);
}

// Before a newcomer has a model.
Result<void> Recovery::Impl::come_in_again(const Error& cause) {
  LS_LOG(warning, "rank {}: {}; it meets the others once more", member, cause.message);
  forget_fault();
  plan = TRY(meet(cause, {.newcomer = true}));
  return {};
}

// The agent learns that the attempt's end is a loss, and no failure of the program: so a new
// attempt goes on from the newest checkpoint. No attempt mends a program that is wrong.
Error Recovery::Impl::end_by(Error error) const {
  if (error.code == Code::invalid) return error;
  const auto lost = dead ? dead : crew ? crew->lost() : std::nullopt;
  if (!all_met && lost)
    report_fault(error, *lost);
  else if (!report_kept_fault() && !all_met)
    report_fault(error, -1);
  return error;
}

Result<Recovered> Recovery::recover(const Error& cause, const Training& training) {
  auto& self = *impl_;
  if (!self.crew || !may_be_a_death(cause)) return cause;
  auto recovered = self.recover_or_fail(cause, training);
  if (!recovered) return self.end_by(std::move(recovered).error());
  forget_fault();
  return recovered;
}

Result<Recovered> Recovery::Impl::recover_or_fail(const Error& cause, const Training& training) {
  // Before the first step nothing is lost that a new attempt does not find again.
  if (seats.empty()) return cause;
  LS_LOG(warning, "{}", cause.message);
  Error last = cause;
  const auto noticed = Steady::now();
  std::vector<int> came;  // by plans that another death broke
  for (int tries = 0; tries < deaths_max(); ++tries) {
    const auto begin = Steady::now();
    // Before the meeting: when all have spoken, no rank writes into another's memory any more.
    training.model.mesh().leave();
    auto next = TRY(meet(last, standing(training)));
    if (tries > 0) {
      tell_too(next, *plan);
      add(came, plan->newcomers);
    }
    plan = std::move(next);
    unread = unread || plan->from_storage;
    const auto met = since(begin);
    seats.assign(plan->seats.begin(), plan->seats.end());
    if (!plan->seat_of(member)) {
      return Recovered{.leaves = true,
                       .step = plan->step,
                       .story = story_of(*plan, plan->step, since(noticed)),
                       .gone = plan->gone};
    }
    auto outcome = new_mesh();
    const auto connected = since(begin);
    auto entered =
        outcome ? enter(*std::move(outcome), training) : Result<void>(std::move(outcome).error());
    auto recovered = entered ? go_on(training) : Result<Recovered>(entered.error());
    if (recovered) {
      recovered->meeting = met;
      recovered->connecting = connected - met;
      auto told = *plan;
      add(told.newcomers, came);
      recovered->story = story_of(told, recovered->step, since(noticed)) + rescale(training);
      return recovered;
    }
    // Another died meanwhile: the members that are left meet once more.
    last = std::move(recovered).error();
    if (!may_be_a_death(last)) break;
  }
  return last;
}

Result<Recovered> Recovery::complete(const Training& training) {
  LS_CHECK(impl_->newcomer);
  const auto begin = Steady::now();
  auto recovered = impl_->go_on(training);
  if (!recovered && may_be_a_death(recovered.error())) return recover(recovered.error(), training);
  if (!recovered) return impl_->end_by(std::move(recovered).error());
  recovered->story = story_of(*impl_->plan, recovered->step, since(begin));
  return recovered;
}

// Ranks that keep their shards keep what they hold; else all is laid out anew.
Result<void> Recovery::Impl::enter(Mesh mesh, const Training& training) {
  if (!plan->laid_out_anew) return training.model.regroup(std::move(mesh));
  TRY(training.model.reshard(std::move(mesh), policy_by_plan()));
  return training.optimizer.remake();
}

Policy Recovery::Impl::policy_by_plan() const {
  auto policy = beginning->policy;
  const bool keeps = policy.parameters > 1 && plan->shards > 1;
  policy.parameters = policy.parameters == 1 ? 1 : plan->shards;
  policy.gradients = plan->shards;
  policy.optimizer = beginning->copied ? plan->shards : ranks();
  policy.keep = policy.keep && keeps;
  return policy;
}

// In the new groups, with all ranks.
Result<Recovered> Recovery::Impl::go_on(const Training& training) {
  Recovered recovered{.step = plan->step, .gone = plan->gone, .tells = plan->teller() == member};
  if (plan->from_storage)
    recovered.step = TRY(read_state(training));
  else
    TRY(take_state(training));
  recovered.again = plan->step - recovered.step;
  newcomer = unread = false;
  // What a death before the next step begins goes back to: of those who read it is the checkpoint.
  keep_beginning(recovered.step, training);
  TRY(training.reopen());
  return recovered;
}

// The newest whole checkpoint, by all.
Result<std::int64_t> Recovery::Impl::read_state(const Training& training) {
  auto& [model, optimizer, sampler, reopen] = training;
  const ResumedOptimizer resumed{std::string(optimizer.method()),
                                 [&](const Manifest& manifest) {
                                   std::vector<std::string> names;
                                   for (const auto& tensor : manifest.tensors)
                                     names.push_back(tensor.name);
                                   return optimizer.state_like(names);
                                 },
                                 [&](std::int64_t steps) { optimizer.set_steps(steps); }};
  optimizer.set_decided(plan->decided);
  const auto step = TRY(resume(options.checkpoints, model, resumed, sampler));
  if (step > 0) return step;
  return Error{Code::not_found, format("what was lost nobody else holds, and {} has no checkpoint "
                                       "yet",
                                       options.checkpoints.string())};
}

// What there is to say of it. By the number at the beginning, so that nothing adds up.
std::string Recovery::Impl::rescale(const Training& training) const {
  if (options.batch == BatchOfFewer::kept || !beginning || ranks() == members) return "";
  const auto first = static_cast<double>(beginning->batch);
  const auto batch = std::max<std::int64_t>(ranks(), std::llround(first * ranks() / members));
  const double factor = static_cast<double>(batch) / first;
  training.sampler.set_global_batch(batch);
  training.optimizer.scale_learning_rate(factor);
  return format("; the global batch is {} samples now, the learning rate {:.3g} of what it was",
                batch, factor);
}

Result<void> Recovery::Impl::take_state(const Training& training) {
  auto& [model, optimizer, sampler, reopen] = training;
  if (!newcomer && optimizer.decided() < plan->decided) TRY(optimizer.catch_up(plan->norm));
  TRY(refill(*plan, training));
  if (newcomer) {
    optimizer.set_steps(plan->optimizer_steps);
    optimizer.set_decided(plan->decided);
    seed_random(plan->seed, plan->step, rank());
  }
  TRY(model.spread());
  return sampler.restore({plan->seed, plan->cursor});
}

}  // namespace lockstep
