#include "train/parameter_server/worker.h"

#include <iterator>
#include <utility>

#include "base/format.h"

namespace lockstep::train {
namespace {

constexpr int kFirstServer = 0;

}  // namespace

Result<std::unique_ptr<ParameterWorker>> ParameterWorker::join(
    const Meeting& meeting, const Policy& policy, const std::vector<Unit>& units,
    const std::vector<at::Tensor>& tensors) {
  const auto servers = static_cast<int>(policy.servers.size());
  std::unique_ptr<ParameterWorker> worker(
      new ParameterWorker(TRY(meeting.join(policy.servers)), servers, meeting.ranks() - servers));
  TRY(send(worker->group_, kFirstServer, {.verb = Message::Verb::tensors}));
  for (const auto& tensor : tensors)
    TRY(worker->group_.receive(tensor, kFirstServer, "frozen parameters and buffers").wait());
  TRY(worker->take_task());
  TRY(worker->begin_pull());
  std::vector<Transfer> pulls;
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit)
    for (auto& transfer : worker->pull(*unit)) pulls.push_back(std::move(transfer));
  for (auto& transfer : pulls) TRY(transfer.wait());
  return worker;
}

ParameterWorker::~ParameterWorker() { leave(); }

void ParameterWorker::leave() {
  if (std::exchange(left_, true)) return;
  for (int server = 0; server < servers_; ++server)
    (void)send(group_, server, {.verb = Message::Verb::leave, .task = task_});
  group_.leave();
}

Result<void> ParameterWorker::take_task() {
  TRY(send(group_, kFirstServer, {.verb = Message::Verb::take}));
  task_ = TRY(receive(group_, kFirstServer)).task;
  return {};
}

Result<void> ParameterWorker::wait_for_sends() {
  Result<void> outcome;
  for (auto& transfer : std::exchange(sends_, {})) {
    auto sent = transfer.wait();
    if (outcome) outcome = std::move(sent);
  }
  return outcome;
}

at::Tensor ParameterWorker::slice(const at::Tensor& flat, int server) const {
  const auto size = flat.numel() / servers_;
  return flat.narrow(0, server * size, size);
}

Result<void> ParameterWorker::begin_push() {
  TRY(wait_for_sends());  // of gradients that were dropped
  for (int server = 0; server < servers_; ++server)
    TRY(send(group_, server, {.verb = Message::Verb::push, .task = task_}));
  return {};
}

Result<void> ParameterWorker::push(const Unit& unit) {
  const auto label = format("gradients of unit {}", unit.index());
  for (int server = 0; server < servers_; ++server)
    sends_.push_back(group_.send(slice(unit.gradients(), server), server, label));
  return {};
}

Result<void> ParameterWorker::finish_step(const StepReport& report) {
  TRY(wait_for_sends());
  for (int server = 1; server < servers_; ++server) TRY(send_report(server, report));
  for (int server = 1; server < servers_; ++server) TRY(receive(group_, server));
  TRY(send_report(kFirstServer, report));
  return take_task();
}

Result<void> ParameterWorker::send_report(int server, const StepReport& report) {
  TRY(send(group_, server,
           {.verb = Message::Verb::finish,
            .task = task_,
            .scale = report.scale,
            .rate_count = std::ssize(report.learning_rates)}));
  return send_rates(group_, server, report.learning_rates);
}

Result<void> ParameterWorker::begin_pull() {
  for (int server = 0; server < servers_; ++server)
    TRY(send(group_, server, {.verb = Message::Verb::pull, .task = task_}));
  return {};
}

std::vector<Transfer> ParameterWorker::pull(const Unit& unit) {
  const auto label = format("parameters of unit {}", unit.index());
  std::vector<Transfer> transfers;
  for (int server = 0; server < servers_; ++server)
    transfers.push_back(group_.receive(slice(unit.whole(), server), server, label));
  return transfers;
}

}  // namespace lockstep::train
