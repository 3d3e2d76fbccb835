// The continuation of a started call: a wait here, a batch, or a Work.
#include <utility>

#include <c10/util/Exception.h>

#include "comm/torch/backend.h"
#include "comm/torch/work.h"

namespace lockstep::comm {

Backend::WorkPtr Backend::start(c10d::OpType type, CallParts parts) {
  if (parts.mode == CallMode::nonblocking) {
    parts.end_event_when_done();
    return add_to_batch(parts) ? nullptr : work_of(type, std::move(parts));
  }
  ++sequence_;
  if (const auto result = PendingCall(std::move(parts)).wait_and_finish(); !result)
    raise_failure(result.error());
  return nullptr;
}

Backend::WorkPtr Backend::work_of(c10d::OpType type, CallParts parts) {
  const std::uint64_t sequence = ++sequence_;
  const auto timeout = parts.timeout;
  // Shared by the handle and, when no caller waits, the completion thread.
  auto call = std::make_shared<PendingCall>(std::move(parts));
  return c10::make_intrusive<Work>(rank_, type, sequence, timeout, std::move(call),
                                   group_->completion_thread());
}

void Backend::startCoalescing() {
  // The calls of a dropped Work continue without their handle.
  if (auto given_up = take_batch()) work_of_batch(*std::move(given_up));
  Lock lock(batches_mutex_);
  batches_.insert_or_assign(std::this_thread::get_id(), Batch());
}

Backend::WorkPtr Backend::endCoalescing() {
  auto batch = take_batch();
  TORCH_CHECK_VALUE(batch, "this thread ends a batch that it has not begun");
  TORCH_CHECK_VALUE(!batch->device || batch->parts.futures.empty(),
                    "a batch has tensors on the CPU and on a device: make one batch for each");
  return work_of_batch(*std::move(batch));
}

Backend::WorkPtr Backend::work_of_batch(Batch batch) {
  if (!batch.device) return work_of(c10d::OpType::COALESCED, std::move(batch.parts));
  return DeviceGroup::call(group_->device_group(), *batch.device,
                           [](c10d::Backend& backend) { return backend.endCoalescing(); });
}

bool Backend::in_batch() {
  Lock lock(batches_mutex_);
  return batches_.contains(std::this_thread::get_id());
}

bool Backend::add_to_batch(CallParts& parts) {
  Lock lock(batches_mutex_);
  const auto batch = batches_.find(std::this_thread::get_id());
  if (batch == batches_.end()) return false;
  batch->second.parts.append(std::move(parts));
  return true;
}

bool Backend::begins_device_batch(at::Device device) {
  Lock lock(batches_mutex_);
  const auto batch = batches_.find(std::this_thread::get_id());
  if (batch == batches_.end() || batch->second.device) return false;
  batch->second.device = device;
  return true;
}

std::optional<Backend::Batch> Backend::take_batch() {
  Lock lock(batches_mutex_);
  auto batch = batches_.extract(std::this_thread::get_id());
  if (batch.empty()) return std::nullopt;
  return std::move(batch.mapped());
}

}  // namespace lockstep::comm
