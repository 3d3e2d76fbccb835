// Rendezvous: a small key-value store through which ranks that start at different times on
// different hosts find each other. Keys are set once and never removed.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace lockstep::comm {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  // already_exists when the key has another value already.
  virtual Result<void> set(std::string_view key, std::string_view value) = 0;
  // Waits until the key is set; timeout, naming the key, at the deadline.
  virtual Result<std::string> get(std::string_view key, Deadline deadline) = 0;
};

// The key space "PREFIX/" inside another rendezvous, so that groups do not see each other's keys.
class PrefixedRendezvous : public Rendezvous {
 public:
  PrefixedRendezvous(Rendezvous& inner, std::string_view prefix)
      : inner_(inner), prefix_(std::string(prefix) + "/") {}
  Result<void> set(std::string_view key, std::string_view value) override {
    return inner_.set(prefix_ + std::string(key), value);
  }
  Result<std::string> get(std::string_view key, Deadline deadline) override {
    return inner_.get(prefix_ + std::string(key), deadline);
  }

 private:
  Rendezvous& inner_;
  std::string prefix_;
};

}  // namespace lockstep::comm
