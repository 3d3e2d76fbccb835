#include "platform/core/sched/capacity/gang_scopes.h"

#include <algorithm>

namespace lockstep::sched {

PlacementScope GangScopes::scope_of(const Shape& shape) const {
  if (shape.needs.kind || kinds_.size() < 2) return scope_on_suitable_hosts(shape);
  PlacementScope best = PlacementScope::impossible;
  for (const map::DeviceKind kind : kinds_) {
    Shape of_kind = shape;
    of_kind.needs.kind = kind;
    best = std::min(best, scope_on_suitable_hosts(of_kind));
  }
  return best;
}

PlacementScope GangScopes::scope_on_suitable_hosts(const Shape& shape) const {
  const bool plain =
      shape.needs == model::Needs{};  // most are, and copies of the capacity are large
  const auto& needs = shape.needs;
  const PlacementScope scope = plain ? placement_scope_of(empty_, shape)
                                     : placement_scope_of(restricted_to(needs, empty_), shape);
  const Gang gang{shape, scope};
  const bool opens = plain ? open_.fits(gang) : restricted_to(needs, open_).fits(gang);
  return can_be_placed(scope) && !opens ? PlacementScope::hosts_closed : scope;
}

}  // namespace lockstep::sched
