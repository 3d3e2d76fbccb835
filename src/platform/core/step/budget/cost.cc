#include "platform/core/step/budget/cost.h"

#include <algorithm>

#include "platform/core/step/budget/rates.h"

namespace lockstep::step {
namespace {

using budget::DeviceTime;

std::int64_t cheapest_rate(const model::State& state, const model::RunSpec& spec) {
  return std::int64_t{model::rank_count(spec)} * least_weight(state.map, state.rates);
}

std::int64_t price_of(const model::State& state, const model::RunSpec& spec, std::int64_t rate) {
  return rate * price_percent(state.settings, spec.run_class) / 100;
}

}  // namespace

RunCost cost_of(const model::State& state, const model::Run& run, Time now) {
  RunCost cost{.so_far = run.charged, .at_limit = run.charged};
  if (model::is_final(run.state) || model::is_external(run)) return cost;
  const model::Attempt* attempt = model::live_attempt(state, run.id);
  Duration left = model::time_left(run);
  std::int64_t rate = cheapest_rate(state, run.spec);
  if (attempt && attempt->charge) {
    rate = attempt->charge->rate_percent;
    cost.so_far += budget::use_of(price_of(state, run.spec, rate),
                                  std::max(now - attempt->charge->from, Duration(0)));
    left -= model::running_time(*attempt, model::nodes_of(state, attempt->id), now);
  }
  cost.at_limit =
      cost.so_far + budget::use_of(price_of(state, run.spec, rate), std::max(left, Duration(0)));
  return cost;
}

DeviceTime cost_at_limit(const model::State& state, const model::RunSpec& spec,
                         const std::vector<model::HostDevices>& devices) {
  std::int64_t rate = devices.empty() ? cheapest_rate(state, spec) : 0;
  for (const model::HostDevices& each : devices)
    rate += static_cast<std::int64_t>(each.devices.size()) *
            weight_of_kind(state.rates, device_kind_of(state.map, each.host));
  const Duration limit =
      spec.timeout.value_or(model::timeout_default(spec.run_class, state.settings));
  return budget::use_of(price_of(state, spec, rate), limit);
}

}  // namespace lockstep::step
