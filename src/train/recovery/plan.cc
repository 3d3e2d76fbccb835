#include "train/recovery/plan.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep {
namespace {

bool holds(const std::optional<Standing>& standing) { return standing && !standing->newcomer; }

// Any of those who were there before: they know the same of the seats.
Result<Standing> old_member(const Standings& standings) {
  for (const auto& [member, standing] : standings)
    if (holds(standing)) return *standing;
  return Error{Code::not_found, "no rank is left that holds anything of the training"};
}

// The most that anybody has decided, and by what. Who is one behind has complete gradients; nobody
// can be two behind, since every decision takes all.
Result<void> find_last_step(const Standings& standings, RecoveryPlan& plan) {
  const Standing* ahead = nullptr;
  for (const auto& [member, standing] : standings)
    if (holds(standing) && (!ahead || standing->decided > ahead->decided)) ahead = &*standing;
  LS_CHECK(ahead != nullptr);
  for (const auto& [member, standing] : standings) {
    if (!holds(standing) || standing->unread || standing->decided == ahead->decided) continue;
    if (standing->decided + 1 < ahead->decided || !standing->undecided)
      return Error{Code::internal,
                   format("member {} has decided {} steps, another {}: their states cannot be "
                          "made one; go on from a checkpoint",
                          member, standing->decided, ahead->decided)};
  }
  plan.decided = ahead->decided;
  plan.norm = ahead->norm;
  plan.optimizer_steps = ahead->optimizer_steps;
  const auto since = ahead->decided - ahead->decided_before;
  plan.step = ahead->step + since;
  plan.seed = ahead->seed;
  plan.cursor = ahead->cursor + since * ahead->batch;
  return {};
}

// Members by seat, with those who are gone, or hold nothing, left out.
class Seats {
 public:
  Seats(const Standing& before, const Standings& standings)
      : shards_(static_cast<std::size_t>(before.shards)) {
    for (const auto member : before.seats) {
      const auto found = standings.find(static_cast<int>(member));
      const bool here = found != standings.end() && holds(found->second);
      seats_.push_back(here ? static_cast<int>(member) : kNobody);
    }
  }

  // Replicas that are whole, then those that can be put together of the rest.
  std::vector<int> regrouped() const {
    std::vector<int> seats;
    std::vector<std::vector<int>> rest(shards_);  // by shard
    for (std::size_t first = 0; first < seats_.size(); first += shards_) {
      const std::vector replica(seats_.begin() + static_cast<long>(first),
                                seats_.begin() + static_cast<long>(first + shards_));
      if (std::count(replica.begin(), replica.end(), kNobody) == 0) {
        seats.insert(seats.end(), replica.begin(), replica.end());
        continue;
      }
      for (std::size_t shard = 0; shard < shards_; ++shard)
        if (replica[shard] != kNobody) rest[shard].push_back(replica[shard]);
    }
    const auto fewest = std::min_element(rest.begin(), rest.end(), [](auto& a, auto& b) {
                          return a.size() < b.size();
                        })->size();
    for (std::size_t i = 0; i < fewest; ++i)
      for (const auto& holders : rest) seats.push_back(holders[i]);
    return seats;
  }

  // As many as make whole groups, in their order; or one group of all if there are fewer.
  std::vector<int> filled() const {
    std::vector<int> living;
    for (const int member : seats_)
      if (member != kNobody) living.push_back(member);
    if (living.size() > shards_) living.resize(living.size() / shards_ * shards_);
    return living;
  }

  // The first shard that nobody holds.
  std::optional<std::size_t> lost_shard() const {
    for (std::size_t shard = 0; shard < shards_; ++shard) {
      bool held = false;
      for (auto seat = shard; seat < seats_.size(); seat += shards_)
        held = held || seats_[seat] != kNobody;
      if (!held) return shard;
    }
    return std::nullopt;
  }

 private:
  static constexpr int kNobody = -1;
  std::size_t shards_;
  std::vector<int> seats_;
};

Result<RecoveryPlan> begin_plan(const Standings& standings, const Standing& before) {
  if (before.shards < 1 || before.seats.empty() ||
      before.seats.size() % static_cast<std::size_t>(before.shards) != 0)
    return Error{Code::corrupt, "a member told seats that are no replicas"};
  RecoveryPlan plan;
  plan.shards = static_cast<int>(before.shards);
  TRY(find_last_step(standings, plan));
  const std::set<std::int64_t> seated(before.seats.begin(), before.seats.end());
  for (const auto& [member, standing] : standings) {
    if (!standing && seated.contains(member)) plan.gone.push_back(member);
    if (standing && standing->newcomer) plan.newcomers.push_back(member);
  }
  return plan;
}

// What nobody has in memory: nothing if all can be had from the living.
std::optional<std::string> lost(const Standings& standings, const Standing& before,
                                const Seats& seats) {
  if (!before.copied)
    return "every rank had a part of the optimizer's state of its own, and none is left of the "
           "lost one's";
  for (const auto& [member, standing] : standings)
    if (holds(standing) && standing->unread)
      return "another rank was lost while the state was read from storage";
  if (const auto shard = seats.lost_shard())
    return format("no living rank holds shard {} of {}", *shard, before.shards);
  return std::nullopt;
}

// By a group of all ranks a policy means all, however many they are.
int group_size(const Standing& before, std::size_t ranks) {
  const auto before_all = static_cast<std::int64_t>(before.seats.size());
  const auto all = static_cast<std::int64_t>(ranks);
  const bool over_all = before.shards == before_all && before.shards > 1;
  return static_cast<int>(over_all ? all : std::min(before.shards, all));
}

}  // namespace

std::string words_of(const Standing& standing) { return dump_json(to_json(standing)); }

Result<Standing> standing_in(const std::string& words) {
  return from_json<Standing>(TRY(parse_json(words)));
}

std::optional<int> RecoveryPlan::seat_of(int member) const {
  const auto found = std::find(seats.begin(), seats.end(), member);
  if (found == seats.end()) return std::nullopt;
  return static_cast<int>(found - seats.begin());
}

int RecoveryPlan::teller() const {
  const std::set<int> fresh(newcomers.begin(), newcomers.end());
  const auto found =
      std::find_if(seats.begin(), seats.end(), [&](int member) { return !fresh.contains(member); });
  LS_CHECK(found != seats.end());  // plans are made by those who were there before
  return *found;
}

RecoveryPlan::Replicas RecoveryPlan::replicas_of(int shard) const {
  const std::set<int> fresh(newcomers.begin(), newcomers.end());
  Replicas replicas;
  for (int replica = 0, seat = shard; seat < static_cast<int>(seats.size());
       ++replica, seat += shards) {
    const bool lacks = fresh.contains(seats[static_cast<std::size_t>(seat)]);
    (lacks ? replicas.lacking : replicas.holding).push_back(replica);
  }
  return replicas;
}

std::map<int, int> RecoveryPlan::senders(const std::vector<int>& host_of_seat) const {
  std::map<int, int> sender_of, serves, wire;  // by seat, by seat, by host: newcomers
  const auto host = [&](int seat) { return host_of_seat.at(static_cast<std::size_t>(seat)); };
  const auto choose = [&](int newcomer, const std::vector<int>& seats_that_hold) {
    const auto load = [&](int seat) { return std::tuple(wire[host(seat)], serves[seat], seat); };
    const int sender =
        *std::min_element(seats_that_hold.begin(), seats_that_hold.end(),
                          [&](int one, int other) { return load(one) < load(other); });
    sender_of[newcomer] = sender;
    ++serves[sender];
    if (host(sender) != host(newcomer)) ++wire[host(sender)];
  };
  // What needs no wire comes first, so that the wires are shared out knowing who is busy.
  for (const bool within : {true, false})
    for (int shard = 0; shard < shards; ++shard) {
      const auto replicas = replicas_of(shard);
      if (replicas.lacking.size() > replicas.holding.size()) continue;
      for (const int lacking : replicas.lacking) {
        const int newcomer = lacking * shards + shard;
        if (sender_of.contains(newcomer)) continue;
        std::vector<int> seats_that_hold;
        for (const int holding : replicas.holding)
          if (const int seat = holding * shards + shard; !within || host(seat) == host(newcomer))
            seats_that_hold.push_back(seat);
        if (!seats_that_hold.empty()) choose(newcomer, seats_that_hold);
      }
    }
  return sender_of;
}

Result<RecoveryPlan> plan_to_shrink(const Standings& standings) {
  const auto before = TRY(old_member(standings));
  auto plan = TRY(begin_plan(standings, before));
  const Seats seats(before, standings);
  if (const auto what = lost(standings, before, seats)) {
    if (!before.storage)
      return Error{Code::not_found, *what + ", and the program names no folder of checkpoints"};
    plan.from_storage = plan.laid_out_anew = true;
    plan.seats = seats.filled();
    plan.shards = group_size(before, plan.seats.size());
  } else {
    plan.seats = seats.regrouped();
  }
  for (const auto& [member, standing] : standings)
    if (standing && !plan.seat_of(member)) plan.leaving.push_back(member);
  return plan;
}

Result<RecoveryPlan> plan_to_reconnect(const Standings& standings) {
  auto plan = TRY(plan_to_refill(standings));
  plan.from_storage = std::ranges::any_of(
      standings, [](const auto& each) { return holds(each.second) && each.second->unread; });
  return plan;
}

Result<RecoveryPlan> plan_to_refill(const Standings& standings) {
  const auto before = TRY(old_member(standings));
  auto plan = TRY(begin_plan(standings, before));
  plan.seats.assign(before.seats.begin(), before.seats.end());
  const Seats seats(before, standings);
  const auto what = lost(standings, before, seats);
  if (!what || plan.newcomers.empty()) return plan;
  if (!before.storage)
    return Error{Code::not_found, *what + ", and the program names no folder of checkpoints"};
  plan.from_storage = true;
  return plan;
}

}  // namespace lockstep
