#include "train/faults.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "comm/group/fault.h"
#include "report/reporter.h"

namespace lockstep {
namespace {

class Faults {
 public:
  void take(const GroupFault& fault) {
    {
      Lock lock(mutex_);
      if (!first_) first_ = fault;  // what follows is mostly because of it
      if (kept_) return;
    }
    send(fault);
  }
  void keep() {
    Lock lock(mutex_);
    kept_ = true;
  }
  void forget() {
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
  bool kept_ LS_GUARDED_BY(mutex_) = false;
};

Faults& faults() {
  static auto* const all = new Faults;  // never destroyed: groups may outlive statics
  return *all;
}

}  // namespace

void report_faults() {
  static const bool once = [] {
    listen_to_faults([](const GroupFault& fault) { faults().take(fault); });
    return true;
  }();
  (void)once;
}

void keep_faults() { faults().keep(); }

void forget_fault() {
  faults().forget();
  forget_faults();
}

bool report_kept_fault() {
  const auto fault = faults().first();
  if (fault) faults().send(*fault);
  return fault.has_value();
}

void report_fault(const Error& error, int rank) {
  const auto kind =
      error.code == Code::timeout ? GroupFault::Kind::timed_out : GroupFault::Kind::connection_lost;
  faults().send({kind, rank, error.message});
}

bool has_lost_connection() {
  const auto fault = faults().first();
  return fault && fault->kind == GroupFault::Kind::connection_lost;
}

}  // namespace lockstep
