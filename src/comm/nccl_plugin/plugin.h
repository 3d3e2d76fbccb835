// Plugin: the devices of this process, and Context, the ports and unfinished connects of one
// communicator.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "comm/nccl_plugin/devices.h"
#include "comm/nccl_plugin/handshake.h"

namespace lockstep::comm::nccl {

struct Host {
  std::vector<Device> devices;
  std::string address;  // numeric; peers connect to it
};

// From version 11 on NCCL makes one for each communicator; before, all share one.
class Context {
 public:
  explicit Context(const Host& host) : host_(host) {}

  Result<std::unique_ptr<ListenConnection>> listen(int device, Handle& handle);
  // Null: call again with the same handle.
  Result<std::unique_ptr<SendConnection>> connect(int device, Handle& handle);

 private:
  struct Pending {
    std::unique_ptr<PendingConnect> connect;
    Deadline deadline;  // for the next call; after it NCCL has given up
  };

  Result<std::shared_ptr<Port>> port(int device);
  Result<Pending> take_pending(std::uint64_t number);

  const Host& host_;
  Mutex mutex_;  // guards what follows
  std::map<int, std::shared_ptr<Port>> ports_ LS_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Pending> pending_ LS_GUARDED_BY(mutex_);
  std::uint64_t next_pending_ LS_GUARDED_BY(mutex_) = 1;
};

class Plugin {
 public:
  // Never destroyed: libfabric's own data may end before it.
  static Plugin& get();

  // Finds the devices at the first call.
  Result<void> init(Logger logger);
  const Device* device(int number) const;
  int device_count() const;
  Context& shared_context() { return *shared_context_; }
  Result<std::unique_ptr<Context>> new_context() const;

 private:
  Plugin() = default;

  Mutex mutex_;                 // held by init()
  std::unique_ptr<Host> host_;  // constant after the first init()
  std::unique_ptr<Context> shared_context_;
};

}  // namespace lockstep::comm::nccl
