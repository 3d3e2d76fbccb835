// ParameterWorker: a worker's side of the parameter server. It sends the gradients of each unit to
// the servers while backward computes the next, and receives parameters while forward computes.
//
// Server k of K has the k-th of K equal slices of each unit. A worker sends and receives M bytes a
// step, M being the bytes of the parameters; gradients of 16-bit floats travel in 32 bits.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "train/engine/unit.h"
#include "train/group/comm.h"
#include "train/parameter_server/meeting.h"
#include "train/parameter_server/message.h"
#include "train/parameter_server/task_queue.h"
#include "train/policy.h"

namespace lockstep::train {

// The report of a worker to the servers at the end of a step.
struct StepReport {
  double scale = 1;  // of the gradients; 0: they are not finite
  std::vector<double> learning_rates = {};
};

// Used by one thread. After an error it is of no use any more.
class ParameterWorker {
 public:
  // Waits for the servers, and for a task. tensors: frozen parameters and buffers, which become the
  // servers'. The units must outlive it, and get their parameters by the first pull.
  static Result<std::unique_ptr<ParameterWorker>> join(const Meeting& meeting, const Policy& policy,
                                                       const std::vector<Unit>& units,
                                                       const std::vector<at::Tensor>& tensors);
  // Leaves, if leave() has not been called.
  ~ParameterWorker();

  // The share of a step that this worker computes next.
  const Task& task() const { return task_; }
  int shares() const { return shares_; }

  // Around the last backward of a step. Gradients must not change until finish_step() returns.
  Result<void> begin_push();
  Result<void> push(const Unit& unit);
  // Returns when all servers have the gradients, with the next task. The first server gets the
  // report last: so a task that it counts as done is done on all of them.
  Result<void> finish_step(const StepReport& report);
  // Requests the parameters; pull() starts to receive a unit's, in the reverse order of push().
  Result<void> begin_pull();
  std::vector<Transfer> pull(const Unit& unit);

  // Its task is given to another worker, and the servers may end if they have all updates before
  // its step. Later calls fail.
  void leave();

 private:
  ParameterWorker(Comm group, int servers, int shares)
      : group_(std::move(group)), servers_(servers), shares_(shares) {}
  Result<void> take_task();
  Result<void> send_report(int server, const StepReport& report);
  Result<void> wait_for_sends();
  at::Tensor slice(const at::Tensor& flat, int server) const;

  Comm group_;
  const int servers_;
  const int shares_;
  Task task_;
  std::vector<Transfer> sends_;
  bool left_ = false;
};

}  // namespace lockstep::train
