#include "train/faults.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "comm/group/fault.h"
#include "report/reporter.h"

namespace lockstep {
namespace {

class FaultReporter {
 public:
  void on_fault(const GroupFault& fault) {
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
  std::optional<GroupFault> first() const {
    Lock lock(mutex_);
    return first_;
  }
  void send(const GroupFault& fault) {
    const bool lost = fault.kind == GroupFault::Kind::connection_lost;
    reporter_->fault(lost ? Fault::connection_lost : Fault::timed_out, fault.rank, fault.text);
  }

 private:
  const std::unique_ptr<Reporter> reporter_ = Reporter::from_environment(WithoutAgent::discard);
  mutable Mutex mutex_;  // guards what follows
  std::optional<GroupFault> first_ LS_GUARDED_BY(mutex_);
  bool deferred_ LS_GUARDED_BY(mutex_) = false;
};

FaultReporter& fault_reporter() {
  static auto* const all = new FaultReporter;  // never destroyed: groups may outlive statics
  return *all;
}

}  // namespace

void enable_fault_reports() {
  static const bool once = [] {
    set_fault_listener([](const GroupFault& fault) { fault_reporter().on_fault(fault); });
    return true;
  }();
  (void)once;
}

void defer_fault_reports() { fault_reporter().defer(); }

void clear_deferred_fault() {
  fault_reporter().clear();
  clear_faults();
}

bool report_deferred_fault() {
  const auto fault = fault_reporter().first();
  if (fault) fault_reporter().send(*fault);
  return fault.has_value();
}

void report_fault(const Error& error, int rank) {
  const auto kind =
      error.code == Code::timeout ? GroupFault::Kind::timed_out : GroupFault::Kind::connection_lost;
  fault_reporter().send({kind, rank, error.message});
}

bool has_lost_connection() {
  const auto fault = fault_reporter().first();
  return fault && fault->kind == GroupFault::Kind::connection_lost;
}

}  // namespace lockstep
