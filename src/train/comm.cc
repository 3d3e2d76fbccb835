#include "train/comm.h"

#include <chrono>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/check.h"
#include "base/format.h"
#include "comm/flight/label.h"

namespace lockstep {
namespace {

c10d::ReduceOp::RedOpType c10d_name(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return c10d::ReduceOp::SUM;
    case Reduction::maximum:
      return c10d::ReduceOp::MAX;
    case Reduction::minimum:
      return c10d::ReduceOp::MIN;
  }
  check_failed("the reduction is known", "");
}

// The first line only: c10 adds a C++ stack to its messages.
Error error_of(std::string_view what, const std::exception& exception) {
  std::string message = exception.what();
  message = message.substr(0, message.find('\n'));
  return Error{Code::unavailable, format("{}: {}", what, message)};
}

std::chrono::milliseconds milliseconds(Duration duration) {
  return std::chrono::ceil<std::chrono::milliseconds>(duration);
}

}  // namespace

Result<void> Transfer::wait() {
  if (error_) return *error_;
  if (!work_) return {};
  try {
    if (!(*work_)->wait(milliseconds(bound_)))
      error_ = Error{Code::cancelled, format("{}: aborted", what_)};
  } catch (const std::exception& exception) {
    error_ = error_of(what_, exception);
  }
  work_.reset();
  if (error_) return *error_;
  return {};
}

Comm::Comm(c10::intrusive_ptr<c10d::ProcessGroup> group, Duration bound)
    : bound_(bound), rank_(group->getRank()), size_(group->getSize()) {
  group_ = std::make_shared<c10::intrusive_ptr<c10d::ProcessGroup>>(std::move(group));
}

template <class Start>
Transfer Comm::start(std::string_view verb, std::string_view label, Start&& start_work) {
  Transfer transfer;
  transfer.what_ = format("{} of {} over {} ranks, seen by rank {}", verb, label, size_, rank_);
  transfer.bound_ = bound_;
  const FlightLabel flight_label(label);
  try {
    transfer.work_ = std::make_shared<c10::intrusive_ptr<c10d::Work>>(start_work());
  } catch (const std::exception& exception) {
    transfer.error_ = error_of(transfer.what_, exception);
  }
  return transfer;
}

Transfer Comm::reduce(at::Tensor tensor, Reduction reduction, std::string_view label) {
  if (!group_) return {};
  return start("all-reduce", label, [&] {
    c10d::AllreduceOptions options;
    options.reduceOp = c10d_name(reduction);
    std::vector<at::Tensor> tensors{std::move(tensor)};
    return (*group_)->allreduce(tensors, options);
  });
}

Transfer Comm::broadcast(at::Tensor tensor, int root, std::string_view label) {
  if (!group_) return {};
  return start("broadcast", label, [&] {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    std::vector<at::Tensor> tensors{std::move(tensor)};
    return (*group_)->broadcast(tensors, options);
  });
}

Result<double> Comm::reduce(double value, Reduction reduction, std::string_view label) {
  if (!group_) return value;
  auto tensor = at::full({1}, value, at::kDouble);
  TRY(reduce(tensor, reduction, label).wait());
  return tensor.item<double>();
}

Result<at::Tensor> Comm::allocate(std::int64_t elements, at::ScalarType type, at::Device device) {
  const auto options = at::TensorOptions().dtype(type).device(device);
  try {
    if (!group_) return at::zeros({elements}, options);
    auto backend = (*group_)->getBackend(device.type());
    if (!backend->supportsTensorAlloc(device.index())) return at::zeros({elements}, options);
    return backend->allocateTensor(elements, options).zero_();
  } catch (const std::exception& exception) {
    return error_of(format("allocating {} elements on {}", elements, device.str()), exception);
  }
}

}  // namespace lockstep
