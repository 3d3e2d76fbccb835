// RendezvousStore: the rendezvous of a run as a c10d::Store, for backends that need one, such as
// ProcessGroupNCCL. Unlike torch's TCPStore it proves the secret of the run, and listens nowhere.
//
// A key keeps its first value. Counters (add) and the number of keys are not supported.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/mutex.h"
#include "base/result.h"
#include "comm/collective/operation_future.h"
#include "comm/rendezvous/client.h"

namespace lockstep::comm {

class RendezvousStore : public c10d::Store {
 public:
  // Keys are "PREFIX/KEY". Waits end with an error when the group has ended.
  RendezvousStore(std::unique_ptr<RendezvousClient> client, std::string prefix,
                  std::chrono::milliseconds timeout, OperationFuture group_end);

  // The same store: it may be used from several threads.
  c10::intrusive_ptr<Store> clone() override;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  // Waits for the key.
  std::vector<std::uint8_t> get(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  // Keys stay: returns false.
  bool deleteKey(const std::string& key) override;

  std::int64_t add(const std::string& key, std::int64_t value) override;
  std::int64_t getNumKeys() override;

 private:
  std::string wait_for(const std::string& key, std::chrono::milliseconds timeout);
  Result<std::string> try_get(const std::string& key, Duration bound);

  const std::string prefix_;
  const OperationFuture group_end_;
  Mutex mutex_;  // guards what follows
  const std::unique_ptr<RendezvousClient> client_ LS_GUARDED_BY(mutex_);
};

}  // namespace lockstep::comm
