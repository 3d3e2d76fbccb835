// Fiber: a body with a stack of its own, which runs until it yields and later goes on from there.
// All fibers of a thread take turns on it; nothing runs at the same time. Over Boost.Context
// (docs/decisions/0027-boost-context.md), with what AddressSanitizer must be told of a stack.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"

namespace lockstep {

// Memory for many stacks, each with a page below it that must not be touched. What no fiber has
// used takes no memory.
class Stacks {
 public:
  // bytes: of each, the guarding page included; a multiple of the page.
  static Result<Stacks> create(std::size_t count, std::size_t bytes);
  Stacks(Stacks&& other) noexcept;
  Stacks& operator=(Stacks&&) = delete;
  ~Stacks();

  std::span<std::byte> operator[](std::size_t i) const;

 private:
  Stacks(std::byte* begin, std::size_t count, std::size_t bytes)
      : begin_(begin), count_(count), bytes_(bytes) {}
  std::byte* begin_;
  std::size_t count_, bytes_;
};

class Fiber {
 public:
  // stack must stay as long as the fiber. The body must have ended before the fiber goes.
  Fiber(std::span<std::byte> stack, std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  bool ended() const;
  // From outside: runs the body until it yields or ends.
  void resume();
  // From inside the body.
  void yield();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
