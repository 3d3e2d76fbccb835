// The messages between a worker and a server, beside gradients and parameters.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "train/group/comm.h"
#include "train/parameter_server/task_queue.h"

namespace lockstep::train {

struct Message {
  enum class Verb : std::int64_t {
    tensors,  // worker: send the frozen parameters and buffers; the first server only
    take,     // worker: send a task; the first server only
    push,     // worker: the gradients of the units follow, in the order of backward
    finish,   // worker: the task is done, its gradients have been sent; learning rates follow
    pull,     // worker: send the parameters, in the reverse order
    leave,    // worker: it ends, and does not compute its task
    task,     // server: a task
    done,     // server: it has the gradients
  };

  Verb verb = Verb::take;
  Task task = {};
  // The factor of the gradients, from clipping; 0 if some are not finite: then they do not count.
  double scale = 1;
  std::int64_t rate_count = 0;  // of the learning rates that follow
};

Result<void> send(Comm& group, int to, const Message& message);
Result<Message> receive(Comm& group, int from);

// The optimizer's learning rates, one for each group of parameters.
Result<void> send_rates(Comm& group, int to, const std::vector<double>& rates);
Result<std::vector<double>> receive_rates(Comm& group, int from, std::int64_t count);

}  // namespace lockstep::train
