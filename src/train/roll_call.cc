#include "train/roll_call.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace lockstep {
namespace {

std::int64_t code_of(RollCall::Act act, int unit) {
  return static_cast<std::int64_t>(act) * (std::int64_t{1} << 32) + unit;
}

const std::int64_t kFinish = code_of(RollCall::Act::finish, 0);

bool all_equal(const std::vector<std::int64_t>& told) {
  return std::all_of(told.begin(), told.end(), [&](auto one) { return one == told[0]; });
}

// "ranks 0 to 3", "ranks 0, 2".
std::string text_of(const std::vector<int>& ranks) {
  const auto count = static_cast<int>(ranks.size());
  if (ranks.back() - ranks.front() == count - 1)
    return format("ranks {} to {}", ranks.front(), ranks.back());
  return format("ranks {}", joined(ranks, ", "));
}

}  // namespace

RollCall::RollCall(const Mesh& mesh, std::vector<std::string> names)
    : group_(mesh.shard()), ranks_(mesh.shard_ranks()), names_(std::move(names)) {}

Result<void> RollCall::announce(Act act, int unit) {
  if (group_.size() == 1) return {};
  const auto code = code_of(act, unit);
  if (acts_.size() < kKept) acts_.push_back(code);
  sum_ = (sum_ ^ static_cast<std::uint64_t>(code)) * 1099511628211u;  // as FNV-1a
  if (!first_step_) return {};
  const auto told = TRY(group_.gather(code, "the roll call"));
  if (all_equal(told)) return {};
  return error_of(told);
}

Result<void> RollCall::finish() {
  if (group_.size() == 1) return {};
  const bool first = std::exchange(first_step_, false);
  const auto mine = first ? kFinish : static_cast<std::int64_t>(sum_);
  const auto told = TRY(group_.gather(mine, "the roll call"));
  if (!all_equal(told)) {
    if (first) return error_of(told);
    return find_difference();
  }
  acts_.clear();
  sum_ = 0;
  return {};
}

// One act of all ranks after the other, up to the first that differs: this is the way to an error,
// and nobody waits for it but who reads that.
Result<void> RollCall::find_difference() {
  const auto lengths = TRY(group_.gather(static_cast<std::int64_t>(acts_.size()), "the roll call"));
  const auto longest = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
  for (std::size_t i = 0; i < longest; ++i) {
    const auto told = TRY(group_.gather(i < acts_.size() ? acts_[i] : kFinish, "the roll call"));
    if (!all_equal(told)) return error_of(told);
  }
  return Error{Code::invalid, format("{} do not run the same units in the same order; run every "
                                     "unit on all ranks alike",
                                     text_of(ranks_))};
}

std::string RollCall::words(std::int64_t told) const {
  const auto act = static_cast<Act>(told >> 32);
  if (act == Act::finish) return "has finished its step";
  const auto& name = names_[static_cast<std::size_t>(told & 0xffffffff)];
  return format("{} {}", act == Act::gather ? "gathers" : "reduces the gradients of", name);
}

// The first rank and the first that differs from it.
Error RollCall::error_of(const std::vector<std::int64_t>& told) const {
  const auto other =
      std::find_if(told.begin(), told.end(), [&](auto one) { return one != told[0]; });
  return Error{Code::invalid,
               format("{} do not run the same units in the same order: rank {} {}, rank {} {}; run "
                      "every unit on all ranks alike",
                      text_of(ranks_), ranks_.front(), words(told[0]),
                      ranks_[static_cast<std::size_t>(other - told.begin())], words(*other))};
}

}  // namespace lockstep
