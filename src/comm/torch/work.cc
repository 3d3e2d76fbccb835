#include "comm/torch/work.h"

#include <utility>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/util/Exception.h>

#include "comm/collective/wait_time.h"

namespace lockstep::comm {
void raise(const Error& error) {
  if (error.code == Code::invalid) C10_THROW_ERROR(ValueError, error.message);
  raise_failure(error);
}

// Programs look for "Timed out", which other backends say.
void raise_failure(const Error& error) {
  const auto* const kind = error.code == Code::timeout ? "lockstep: Timed out waiting: " : "";
  C10_THROW_ERROR(DistBackendError, kind + error.message);
}

std::exception_ptr as_exception(const Error& error) {
  try {
    raise_failure(error);
  } catch (...) {
    return std::current_exception();
  }
}

Work::Work(int rank, c10d::OpType type, std::uint64_t sequence, std::chrono::milliseconds timeout,
           std::shared_ptr<PendingCall> call, std::shared_ptr<CompletionThread> completion_thread)
    : c10d::Work(rank, type),
      sequence_(sequence),
      timeout_(timeout),
      call_(std::move(call)),
      completion_thread_(std::move(completion_thread)) {}

Work::~Work() {
  bool awaited;
  {
    Lock lock(future_mutex_);
    awaited = future_ != nullptr;
  }
  if (awaited) return;
  if (call_->ready())
    (void)call_->wait_and_finish();  // its error is for a caller that would have waited
  else
    CompletionThread::complete_when_ready(completion_thread_, call_, nullptr);
}

bool Work::isCompleted() {
  if (!call_->ready()) return false;
  (void)call_->wait_and_finish();  // torch asks isSuccess() next
  return true;
}

bool Work::isSuccess() const { return call_->ready() && call_->wait_and_finish().has_value(); }

std::exception_ptr Work::exception() const {
  if (!call_->ready()) return nullptr;
  const auto result = call_->wait_and_finish();
  return result ? nullptr : as_exception(result.error());
}

int Work::sourceRank() const {
  const auto source = call_->source();
  TORCH_CHECK_VALUE(source, "only a recv from any source that is done knows its source");
  return *source;
}

bool Work::wait(std::chrono::milliseconds timeout) {
  const auto limit = timeout.count() > 0 ? timeout : timeout_;
  const auto result = limit.count() > 0
                          ? call_->wait_and_finish_until(Deadline::after(limit), limit)
                          : call_->wait_and_finish();
  completion_thread_->destroy_completed();
  if (!result) raise_failure(result.error());
  call_->release();
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    Lock lock(future_mutex_);
    if (future_) return future_;
    future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future_ = future;
  }
  note_submitted();
  auto complete = [future, call = call_.get()](const Result<void>& result) {
    note_done();
    if (result)
      future->markCompleted(at::IValue(call->outputs()));
    else
      future->setError(as_exception(result.error()));
  };
  if (call_->ready())
    complete(call_->wait_and_finish());
  else
    CompletionThread::complete_when_ready(completion_thread_, call_, std::move(complete));
  return future;
}

}  // namespace lockstep::comm
