#include "comm/torch/work.h"

#include <utility>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/util/Exception.h>

namespace lockstep {
namespace {

std::exception_ptr as_exception(const Error& error) {
  try {
    raise(error);
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

void raise(const Error& error) {
  if (error.code == Code::invalid) C10_THROW_ERROR(ValueError, error.message);
  C10_THROW_ERROR(DistBackendError, error.message);
}

Work::Work(int rank, c10d::OpType type, std::uint64_t sequence, std::chrono::milliseconds allowed,
           std::shared_ptr<Operation> operation, std::shared_ptr<Finisher> finisher)
    : c10d::Work(rank, type),
      sequence_(sequence),
      allowed_(allowed),
      operation_(std::move(operation)),
      finisher_(std::move(finisher)) {}

Work::~Work() {
  bool awaited;
  {
    Lock lock(future_mutex_);
    awaited = future_ != nullptr;
  }
  if (awaited) return;
  if (operation_->ready())
    (void)operation_->settle();  // its error belonged to whoever would have waited
  else
    Finisher::finish(finisher_, operation_, nullptr);
}

bool Work::isCompleted() {
  if (!operation_->ready()) return false;
  (void)operation_->settle();  // torch asks isSuccess() next
  return true;
}

bool Work::isSuccess() const { return operation_->ready() && operation_->settle().has_value(); }

std::exception_ptr Work::exception() const {
  if (!operation_->ready()) return nullptr;
  const auto result = operation_->settle();
  return result ? nullptr : as_exception(result.error());
}

bool Work::wait(std::chrono::milliseconds timeout) {
  const auto allowed = timeout.count() > 0 ? timeout : allowed_;
  const auto result = allowed.count() > 0 ? operation_->settle_by(Deadline::after(allowed), allowed)
                                          : operation_->settle();
  finisher_->sweep();
  if (!result) raise(result.error());
  operation_->release();
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
  auto complete = [future, operation = operation_.get()](const Result<void>& result) {
    if (result)
      future->markCompleted(at::IValue(operation->outputs()));
    else
      future->setError(as_exception(result.error()));
  };
  if (operation_->ready())
    complete(operation_->settle());
  else
    Finisher::finish(finisher_, operation_, std::move(complete));
  return future;
}

}  // namespace lockstep
