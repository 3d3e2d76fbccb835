// LocalRendezvous: the rendezvous within one process, for ranks that are its threads.
#pragma once

#include <map>

#include "base/mutex.h"
#include "comm/rendezvous/rendezvous.h"

namespace lockstep::comm {

// Safe to use from all threads.
class LocalRendezvous : public Rendezvous {
 public:
  Result<void> set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;

 private:
  Mutex mutex_;  // guards what follows
  Condition changed_;
  std::map<std::string, std::string, std::less<>> entries_ LS_GUARDED_BY(mutex_);
};

}  // namespace lockstep::comm
