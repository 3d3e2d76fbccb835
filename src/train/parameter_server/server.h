// ParameterServer: holds a slice of the parameters and of the optimizer's state for all workers.
//
// A thread for each worker receives its gradients and sends it parameters. The rank's own thread
// applies the updates, one after the other:
//
//   server.start(first_step);
//   while (auto update = TRY(server.wait_update())) {
//     ...                       steps the optimizer with the gradients of the slices
//     server.publish();         the workers get the new parameters
//   }
//
// The loss of a worker ends its thread's conversation only: its task goes to another worker, and
// the thread waits for a process that takes the worker's place.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/mutex.h"
#include "base/result.h"
#include "train/engine/unit.h"
#include "train/parameter_server/meeting.h"
#include "train/parameter_server/message.h"
#include "train/parameter_server/task_queue.h"
#include "train/parameter_server/update_order.h"
#include "train/policy.h"

namespace lockstep::train {

class ParameterServer {
 public:
  // The units have this server's slices, and must outlive it. tensors: frozen parameters and
  // buffers, which the first server sends to workers that join.
  ParameterServer(std::shared_ptr<Meeting> meeting, const Policy& policy, std::vector<Unit>& units,
                  std::vector<at::Tensor> tensors);
  ~ParameterServer();  // stops

  // Accepts workers from now on. first_step: the number of updates that the parameters have. An
  // error if it has been called before.
  Result<void> start(std::int64_t first_step);
  // Ends the connections to workers, and accepts no others.
  void stop();

  struct Update {
    std::int64_t step = 0;      // counted from 1
    bool has_gradients = true;  // false: those of all workers were not finite
    std::vector<double> learning_rates = {};
  };
  // The next update. Its gradients are in the units' gradient slices; until publish() no worker
  // reads parameters. Nothing: all workers have left, and all updates before the steps at which
  // they left are applied. timeout: all workers are gone before, and no other has come.
  Result<std::optional<Update>> wait_update();
  void publish();

 private:
  struct Sum {
    std::vector<at::Tensor> gradients;  // by unit
    int count = 0;                      // of gradients that are finite
    std::vector<double> learning_rates;
  };
  // A conversation with one process of a worker, and the memory for it.
  struct Conversation {
    int worker;
    Comm group;
    std::vector<at::Tensor> gradients = {};  // by unit
    std::vector<at::Tensor> parameters = {};
  };
  using Tensors = std::vector<at::Tensor>;

  void serve_worker(int worker);
  void pause();
  void end(int worker, const Result<std::int64_t>& outcome);
  Result<std::int64_t> converse(Conversation& conversation);
  Result<void> reply(Conversation& conversation, const Message& message);
  Result<void> send_tensors(Conversation& conversation) const;
  Result<void> send_task(Conversation& conversation);
  Result<void> receive_gradients(Conversation& conversation);
  Result<void> finish_task(Conversation& conversation, const Message& message);
  Result<void> send_parameters(Conversation& conversation, std::int64_t step);
  Result<void> copy_parameters(Conversation& conversation, std::int64_t step);
  void add(const Tensors& gradients, const Message& message, std::vector<double> rates)
      LS_REQUIRES(mutex_);
  bool is_stopping() const;
  bool is_first() const { return policy_.servers.front() == meeting_->rank(); }
  int worker_rank() const { return static_cast<int>(policy_.servers.size()); }

  const std::shared_ptr<Meeting> meeting_;  // shared with the mesh that it came with
  const Policy policy_;
  const int shares_;
  std::vector<Unit>& units_;
  const Tensors tensors_;

  mutable Mutex mutex_;  // guards what follows
  Condition changed_;
  std::optional<TaskQueue> tasks_ LS_GUARDED_BY(mutex_);
  std::optional<UpdateOrder> order_ LS_GUARDED_BY(mutex_);
  std::map<std::int64_t, Sum> sums_ LS_GUARDED_BY(mutex_);  // by update
  bool is_stepping_ LS_GUARDED_BY(mutex_) = false;          // the parameters change
  bool is_stopping_ LS_GUARDED_BY(mutex_) = false;
  bool has_met_worker_ LS_GUARDED_BY(mutex_) = false;
  // The earliest step of the tasks with which workers have left in order.
  std::optional<std::int64_t> step_left_at_ LS_GUARDED_BY(mutex_);
  std::map<int, Comm> present_ LS_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::train
