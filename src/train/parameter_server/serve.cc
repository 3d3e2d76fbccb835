#include "train/parameter_server/serve.h"

#include <algorithm>

#include "base/format.h"
#include "train/parameter_server/server.h"

namespace lockstep::train {

Result<void> start_serving(ShardedModel& model, std::int64_t first_step) {
  auto* server = model.parameter_server();
  if (server == nullptr)
    return Error{Code::invalid, "this rank is no server: serve only on the servers of policy ps:K"};
  const auto steps = TRY(model.mesh().replicate().all_gather(first_step, "the servers' steps"));
  const auto [least, most] = std::ranges::minmax(steps);
  if (least != most)
    return Error{Code::invalid, format("the servers begin after different steps, {} and {}: resume "
                                       "all of them from the same checkpoint",
                                       least, most)};
  return server->start(first_step);
}

Result<std::int64_t> serve_parameters(
    ShardedModel& model, Optimizer& optimizer, std::int64_t first_step,
    const std::function<Result<void>(std::int64_t step)>& on_update) {
  TRY(start_serving(model, first_step));
  auto& server = *model.parameter_server();
  auto step = first_step;
  while (const auto update = TRY(server.wait_update())) {
    if (update->has_gradients) TRY(optimizer.apply_update(update->learning_rates));
    step = update->step;
    server.publish();
    if (on_update) TRY(on_update(step));
  }
  TRY(model.sync_parameters());
  return step;
}

}  // namespace lockstep::train
