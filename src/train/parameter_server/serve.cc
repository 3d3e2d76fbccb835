#include "train/parameter_server/serve.h"

#include "train/parameter_server/server.h"

namespace lockstep::train {

Result<std::int64_t> serve_parameters(
    ShardedModel& model, Optimizer& optimizer, std::int64_t first_step,
    const std::function<Result<void>(std::int64_t step)>& on_update) {
  auto* server = model.parameter_server();
  if (server == nullptr)
    return Error{Code::invalid, "this rank is no server: serve only on the servers of policy ps:K"};
  server->start(first_step);
  auto step = first_step;
  while (const auto update = TRY(server->wait_update())) {
    if (update->has_gradients) TRY(optimizer.apply_update(update->learning_rates));
    step = update->step;
    server->publish();
    if (on_update) TRY(on_update(step));
  }
  return step;
}

}  // namespace lockstep::train
