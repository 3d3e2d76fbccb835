#include "train/roll_call.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "base/format.h"

namespace lockstep {

RollCall::RollCall(const Mesh& mesh, std::vector<std::string> names)
    : group_(mesh.shard()),
      first_rank_(mesh.rank() - mesh.shard().rank()),
      names_(std::move(names)),
      over_(mesh.shard().size() == 1) {}

Result<void> RollCall::announce(Act act, int unit) {
  if (over_) return {};
  const auto mine = static_cast<std::int64_t>(act) * (std::int64_t{1} << 32) + unit;
  const auto all = at::zeros({group_.size()}, at::kLong);
  TRY(group_.gather(all, at::full({1}, mine, at::kLong), "the roll call").wait());
  const auto* first = all.const_data_ptr<std::int64_t>();
  const std::vector<std::int64_t> told(first, first + group_.size());
  if (std::all_of(told.begin(), told.end(), [&](auto one) { return one == mine; })) return {};
  over_ = true;
  return error_of(told);
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
  return Error{
      Code::invalid,
      format("ranks {} to {} do not run the same units in the same order: rank {} {}, rank "
             "{} {}; run every unit on all ranks alike",
             first_rank_, first_rank_ + group_.size() - 1, first_rank_, words(told[0]),
             first_rank_ + (other - told.begin()), words(*other))};
}

}  // namespace lockstep
