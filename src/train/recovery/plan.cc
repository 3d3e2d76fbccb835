#include "train/recovery/plan.h"

#include <algorithm>
#include <set>
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
    if (!holds(standing) || standing->decided == ahead->decided) continue;
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
  for (const auto& [member, standing] : standings) {
    if (!standing) plan.gone.push_back(member);
    if (standing && standing->newcomer) plan.newcomers.push_back(member);
  }
  return plan;
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

int RecoveryPlan::source_of(int shard) const {
  const std::set<int> fresh(newcomers.begin(), newcomers.end());
  int replica = 0;
  for (int seat = shard; fresh.contains(seats.at(static_cast<std::size_t>(seat))); seat += shards)
    ++replica;
  return replica;
}

Result<RecoveryPlan> plan_to_shrink(const Standings& standings) {
  const auto before = TRY(old_member(standings));
  auto plan = TRY(begin_plan(standings, before));
  if (!before.copied)
    return Error{Code::not_found,
                 "every rank had a part of the optimizer's state of its own, and none is left of "
                 "the dead one's: go on from a checkpoint"};
  const Seats seats(before, standings);
  if (const auto lost = seats.lost_shard())
    return Error{Code::not_found, format("no living rank holds shard {} of {}: go on from a "
                                         "checkpoint",
                                         *lost, plan.shards)};
  plan.seats = seats.regrouped();
  for (const auto& [member, standing] : standings)
    if (standing && !plan.seat_of(member)) plan.leaving.push_back(member);
  return plan;
}

Result<RecoveryPlan> plan_to_refill(const Standings& standings) {
  const auto before = TRY(old_member(standings));
  auto plan = TRY(begin_plan(standings, before));
  plan.seats.assign(before.seats.begin(), before.seats.end());
  const Seats seats(before, standings);
  plan.from_storage = !plan.newcomers.empty() && (!before.copied || seats.lost_shard());
  return plan;
}

}  // namespace lockstep
