#include "comm/choice/plan_chooser.h"

#include "comm/choice/choose.h"

namespace lockstep::comm {

CallPlan PlanChooser::plan_for(Operation operation, std::size_t bytes) {
  constexpr std::size_t kSpread = 0x9e3779b97f4a7c15;  // for sizes that differ in any of their bits
  const auto mixed = (bytes * 16 + static_cast<std::size_t>(operation)) * kSpread;
  auto& known = cache_[mixed >> 58];
  if (!known || known->operation != operation || known->bytes != bytes) {
    const bool is_forced = forced_ && fits(*forced_, operation, bytes, group_);
    known = {operation, bytes,
             is_forced ? *forced_ : choose(operation, bytes, group_, costs_, piece_bytes_)};
  }
  return known->plan;
}

}  // namespace lockstep::comm
