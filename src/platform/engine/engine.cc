#include "platform/engine/engine.h"

namespace lockstep::engine {

LaunchRecord launch_record(const Result<host::LaunchSpec>& launch) {
  if (!launch) return {.error = launch.error().message};
  return {.attempt = launch->attempt, .host = launch->host, .time_left = launch->time_left};
}

}  // namespace lockstep::engine
