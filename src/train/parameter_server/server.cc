#include "train/parameter_server/server.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "train/faults.h"

namespace lockstep::train {
namespace {

// How long a server without workers waits for one.
constexpr Duration kNewWorkerBound = std::chrono::minutes(2);
// Between two tries to reach the rendezvous.
constexpr Duration kRetryPause = std::chrono::seconds(5);

}  // namespace

ParameterServer::ParameterServer(std::shared_ptr<Meeting> meeting, const Policy& policy,
                                 std::vector<Unit>& units, std::vector<at::Tensor> tensors)
    : meeting_(std::move(meeting)),
      policy_(policy),
      shares_(meeting_->ranks() - static_cast<int>(policy.servers.size())),
      units_(units),
      tensors_(std::move(tensors)) {}

ParameterServer::~ParameterServer() { stop(); }

void ParameterServer::stop() {
  {
    const Lock lock(mutex_);
    is_stopping_ = true;
    for (auto& [worker, group] : present_) group.leave();
    changed_.notify_all();
  }
  for (auto& thread : std::exchange(threads_, {})) thread.join();
}

Result<void> ParameterServer::start(std::int64_t first_step) {
  {
    const Lock lock(mutex_);
    if (order_)
      return Error{Code::invalid, "this rank has served parameters before: a training serves once"};
    tasks_.emplace(shares_, policy_.staleness, first_step);
    order_.emplace(shares_, policy_.staleness, first_step);
  }
  for (int rank = 0; rank < meeting_->ranks(); ++rank)
    if (!policy_.is_server(rank)) threads_.emplace_back([this, rank] { serve_worker(rank); });
  return {};
}

bool ParameterServer::is_stopping() const {
  const Lock lock(mutex_);
  return is_stopping_;
}

Result<std::optional<ParameterServer::Update>> ParameterServer::wait_update() {
  const at::NoGradGuard no_grad;
  const Lock lock(mutex_);
  LS_CHECK(order_ && !is_stepping_);
  auto last_seen = Deadline::after(
      has_met_worker_ ? kNewWorkerBound : kNewWorkerBound + meeting_->timeout());  // may be late
  while (!order_->is_complete()) {
    if (is_stopping_) return Error{Code::cancelled, "this server has ended"};
    if (present_.empty() && step_left_at_ && order_->version() >= *step_left_at_)
      return std::optional<Update>();
    if (!present_.empty()) last_seen = Deadline::after(kNewWorkerBound);
    if (last_seen.passed())
      return Error{Code::timeout,
                   format("all workers are gone after step {}, and no other has come: start again, "
                          "from a checkpoint",
                          order_->version())};
    changed_.wait_until(mutex_, Deadline::after(std::chrono::seconds(1)));
  }
  auto sum = std::move(sums_.extract(order_->version()).mapped());
  for (std::size_t i = 0; i < units_.size() && sum.count > 0; ++i) {
    const auto& slice = units_[i].gradient_slice();
    slice.copy_(sum.gradients[i].div_(sum.count));
  }
  is_stepping_ = true;
  return std::optional(Update{order_->version() + 1, sum.count > 0, std::move(sum.learning_rates)});
}

void ParameterServer::publish() {
  for (auto& unit : units_) unit.round_master();
  const Lock lock(mutex_);
  order_->apply();
  is_stepping_ = false;
  changed_.notify_all();
}

// One process of the worker after another.
void ParameterServer::serve_worker(int worker) {
  const at::NoGradGuard no_grad;
  bool has_warned = false;
  for (int number = 0; !is_stopping();) {
    auto run =
        meeting_->wait_arrival(policy_.servers, worker, number, [&] { return !is_stopping(); });
    if (!run) {
      if (run.error().code != Code::cancelled && !std::exchange(has_warned, true))
        LS_LOG(warning, "worker {}: none can join until the rendezvous answers: {}", worker,
               run.error().message);
      pause();
      continue;
    }
    has_warned = false;
    auto group = meeting_->accept(*run, policy_.servers, worker, number++);
    if (!group) {
      LS_LOG(warning, "worker {}: {}", worker, group.error().message);
      continue;
    }
    Conversation conversation{worker, *std::move(group)};
    {
      const Lock lock(mutex_);
      if (is_stopping_) break;  // stop() does not know the group, which ends here
      present_.emplace(worker, conversation.group);
      has_met_worker_ = true;
      tasks_->join(worker);
      changed_.notify_all();
    }
    end(worker, converse(conversation));
    conversation.group.leave();
  }
}

void ParameterServer::pause() {
  const auto deadline = Deadline::after(kRetryPause);
  const Lock lock(mutex_);
  while (!is_stopping_ && !deadline.passed()) changed_.wait_until(mutex_, deadline);
}

void ParameterServer::end(int worker, const Result<std::int64_t>& outcome) {
  const Lock lock(mutex_);
  if (!outcome) {
    clear_deferred_fault();  // the server continues
    if (!is_stopping_)
      LS_LOG(warning, "worker {} is lost, and the others continue: {}", worker,
             outcome.error().message);
  } else {
    step_left_at_ = std::min(step_left_at_.value_or(*outcome), *outcome);
  }
  present_.erase(worker);
  tasks_->leave(worker);
  changed_.notify_all();
}

// Until the worker leaves; returns the step of the task that it does not compute.
Result<std::int64_t> ParameterServer::converse(Conversation& conversation) {
  for (const auto& unit : units_) {
    const auto& slice = unit.slice();
    const auto& gradients = unit.gradient_slice();
    conversation.parameters.push_back(
        TRY(conversation.group.allocate(slice.numel(), slice.scalar_type(), slice.device())));
    conversation.gradients.push_back(TRY(conversation.group.allocate(
        gradients.numel(), gradients.scalar_type(), gradients.device())));
  }
  for (;;) {
    const auto message = TRY(receive(conversation.group, worker_rank()));
    if (message.verb == Message::Verb::leave) return message.task.step;
    TRY(reply(conversation, message));
  }
}

Result<void> ParameterServer::reply(Conversation& conversation, const Message& message) {
  switch (message.verb) {
    case Message::Verb::tensors:
      return send_tensors(conversation);
    case Message::Verb::take:
      return send_task(conversation);
    case Message::Verb::push:
      return receive_gradients(conversation);
    case Message::Verb::finish:
      return finish_task(conversation, message);
    case Message::Verb::pull:
      return send_parameters(conversation, message.task.step);
    case Message::Verb::leave:
    case Message::Verb::task:
    case Message::Verb::done:
      break;
  }
  return Error{Code::corrupt, "a worker sent a message that is not one of a worker's"};
}

Result<void> ParameterServer::send_tensors(Conversation& conversation) const {
  for (const auto& tensor : tensors_)
    TRY(conversation.group.send(tensor.contiguous(), worker_rank(), "frozen parameters and buffers")
            .wait());
  return {};
}

Result<void> ParameterServer::send_task(Conversation& conversation) {
  std::optional<Task> task;
  const auto deadline = Deadline::after(meeting_->timeout());
  {
    const Lock lock(mutex_);
    while (!is_stopping_ && !(task = tasks_->take(conversation.worker))) {
      if (!changed_.wait_until(mutex_, deadline) && deadline.passed())
        return Error{Code::timeout, format("no task for it in {}: the other workers are behind",
                                           lockstep::text(meeting_->timeout()))};
    }
  }
  if (!task) return Error{Code::cancelled, "the server ends"};
  return send(conversation.group, worker_rank(), {.verb = Message::Verb::task, .task = *task});
}

Result<void> ParameterServer::receive_gradients(Conversation& conversation) {
  std::vector<Transfer> transfers;
  for (std::size_t i = 0; i < units_.size(); ++i)
    transfers.push_back(conversation.group.receive(conversation.gradients[i], worker_rank(),
                                                   format("gradients of unit {}", i)));
  for (auto& transfer : transfers) TRY(transfer.wait());
  return {};
}

// The first server counts the task as done: the others have its gradients by then.
Result<void> ParameterServer::finish_task(Conversation& conversation, const Message& message) {
  auto rates = TRY(receive_rates(conversation.group, worker_rank(), message.rate_count));
  {
    const Lock lock(mutex_);
    add(conversation.gradients, message, std::move(rates));
    if (is_first()) tasks_->finish(conversation.worker);
    changed_.notify_all();
  }
  if (is_first()) return {};
  return send(conversation.group, worker_rank(), {.verb = Message::Verb::done});
}

void ParameterServer::add(const Tensors& gradients, const Message& message,
                          std::vector<double> rates) {
  const auto update = order_->add(message.task);
  if (!update) return;
  auto& sum = sums_[*update];
  sum.learning_rates = std::move(rates);
  if (message.scale == 0) return;
  const bool is_new = sum.count++ == 0;
  if (is_new)
    for (const auto& gradient : gradients) sum.gradients.push_back(at::zeros_like(gradient));
  for (std::size_t i = 0; i < gradients.size(); ++i)
    sum.gradients[i].add_(gradients[i], message.scale);
}

Result<void> ParameterServer::send_parameters(Conversation& conversation, std::int64_t step) {
  TRY(copy_parameters(conversation, step));
  std::vector<Transfer> transfers;
  for (std::size_t i = units_.size(); i-- > 0;)
    transfers.push_back(conversation.group.send(conversation.parameters[i], worker_rank(),
                                                format("parameters of unit {}", i)));
  for (auto& transfer : transfers) TRY(transfer.wait());
  return {};
}

// When they are new enough. A copy, so that a slow connection does not hold up the updates.
Result<void> ParameterServer::copy_parameters(Conversation& conversation, std::int64_t step) {
  const auto deadline = Deadline::after(meeting_->timeout());
  const Lock lock(mutex_);
  while (is_stepping_ || !order_->serves(step)) {
    if (is_stopping_) return Error{Code::cancelled, "the server ends"};
    if (!changed_.wait_until(mutex_, deadline) && deadline.passed())
      return Error{Code::timeout, format("no parameters for step {} in {}: the other workers are "
                                         "behind",
                                         step, lockstep::text(meeting_->timeout()))};
  }
  for (std::size_t i = 0; i < units_.size(); ++i)
    conversation.parameters[i].copy_(units_[i].slice());
  return {};
}

}  // namespace lockstep::train
