#include "platform/core/step/budget/cost.h"

#include <algorithm>

#include "platform/core/model/hosts_by_placement.h"
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

// An empty host: the engine that chooses hosts will name it.
std::string kind_to_price(const model::State& state, const model::RunSpec& spec,
                          const std::string& host) {
  if (!host.empty()) return device_kind_of(state.map, host);
  return device_kind_without_host(
      state.map,
      [&](const map::Pod& pod) { return model::engine_of(state, pod) == state.placing_engine; },
      spec, [&](const std::string& kind) { return weight_of_kind(state.rates, kind); });
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
    rate += std::ssize(each.devices) *
            weight_of_kind(state.rates, kind_to_price(state, spec, each.host));
  const Duration limit =
      spec.timeout.value_or(model::timeout_default(spec.run_class, state.settings));
  return budget::use_of(price_of(state, spec, rate), limit);
}

}  // namespace lockstep::step
