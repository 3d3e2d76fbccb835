// StoreRendezvous: a c10d::Store (TCPStore, FileStore, ...) as the rendezvous of a communicator.
#pragma once

#include <exception>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/rendezvous/rendezvous.h"

namespace lockstep::comm {

// The message of an exception of c10d, in one line, without its stack trace.
std::string reason(const std::exception& error);

class StoreRendezvous : public Rendezvous {
 public:
  // Keys are "PREFIX/KEY". The prefix must be new for each group: keys stay in the store.
  StoreRendezvous(c10::intrusive_ptr<c10d::Store> store, std::string prefix)
      : store_(std::move(store)), prefix_(std::move(prefix)) {}

  Result<void> set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;

 private:
  std::string full(std::string_view key) const { return prefix_ + "/" + std::string(key); }

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string prefix_;
};

}  // namespace lockstep::comm
