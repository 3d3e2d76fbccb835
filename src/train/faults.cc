#include "train/faults.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "comm/group/fault.h"
#include "report/reporter.h"

namespace lockstep::train {
namespace {

class FaultReporter {
 public:
  void on_fault(const comm::GroupFault& fault) {
    {
      Lock lock(mutex_);
      if (!first_) first_ = fault;  // later faults are mostly its consequences
      if (deferred_) return;
    }
    send(fault);
  }
  void defer() {
    Lock lock(mutex_);
    deferred_ = true;
  }
  void clear() {
    Lock lock(mutex_);
    first_.reset();
  }
  std::optional<comm::GroupFault> first() const {
    Lock lock(mutex_);
    return first_;
  }
  void send(const comm::GroupFault& fault) {
    const bool lost = fault.kind == comm::GroupFault::Kind::connection_lost;
    reporter_->fault(lost ? report::Fault::connection_lost : report::Fault::timed_out, fault.rank,
                     fault.text);
  }

 private:
  const std::unique_ptr<report::Reporter> reporter_ =
      report::Reporter::from_environment(report::WithoutAgent::discard);
  mutable Mutex mutex_;  // guards what follows
  std::optional<comm::GroupFault> first_ LS_GUARDED_BY(mutex_);
  bool deferred_ LS_GUARDED_BY(mutex_) = false;
};

FaultReporter& fault_reporter() {
  static auto* const all = new FaultReporter;  // never destroyed: groups may outlive statics
  return *all;
}

}  // namespace

void enable_fault_reports() {
  static const bool once = [] {
    comm::set_fault_listener(
        [](const comm::GroupFault& fault) { fault_reporter().on_fault(fault); });
    return true;
  }();
  (void)once;
}

void defer_fault_reports() { fault_reporter().defer(); }

void clear_deferred_fault() {
  fault_reporter().clear();
  comm::clear_faults();
}

bool report_deferred_fault() {
  const auto fault = fault_reporter().first();
  if (fault) fault_reporter().send(*fault);
  return fault.has_value();
}

void report_fault(const Error& error, int rank) {
  const auto kind = error.code == Code::timeout ? comm::GroupFault::Kind::timed_out
                                                : comm::GroupFault::Kind::connection_lost;
  fault_reporter().send({kind, rank, error.message});
}

bool has_lost_connection() {
  const auto fault = fault_reporter().first();
  return fault && fault->kind == comm::GroupFault::Kind::connection_lost;
}

}  // namespace lockstep::train
