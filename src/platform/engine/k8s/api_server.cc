#include "platform/engine/k8s/api_server.h"

namespace lockstep::engine {

Error error_of(const ApiReply& reply) {
  const bool may_pass = reply.status == 0 || reply.status == 429 || reply.status >= 500;
  return {may_pass ? Code::unavailable : Code::denied, reply.error};
}

}  // namespace lockstep::engine
