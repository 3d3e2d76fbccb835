// XXH3-128 of bytes that come in pieces, as 32 hex digits (the canonical, big-endian form).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace lockstep::train {

class Hash {
 public:
  Hash();
  Hash(Hash&&) noexcept;
  Hash& operator=(Hash&&) noexcept;
  ~Hash();
  void add(const void* data, std::size_t size);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::train
