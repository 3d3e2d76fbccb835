// Fiber: a body with its own stack, which runs until it yields and later continues from there. The
// fibers of a thread run one at a time. It uses Boost.Context
// (docs/decisions/0027-boost-context.md), and informs AddressSanitizer about stacks.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"

namespace lockstep::comm {

// Memory for many stacks, each with a guard page below it. Unused pages take no memory.
class FiberStacks {
 public:
  // bytes: of each, including the guard page; a multiple of the page size.
  static Result<FiberStacks> create(std::size_t count, std::size_t bytes);
  FiberStacks(FiberStacks&& other) noexcept;
  FiberStacks& operator=(FiberStacks&&) = delete;
  ~FiberStacks();

  std::span<std::byte> operator[](std::size_t i) const;

 private:
  FiberStacks(std::byte* begin, std::size_t count, std::size_t bytes)
      : begin_(begin), count_(count), bytes_(bytes) {}
  std::byte* begin_;
  std::size_t count_, bytes_;
};

class Fiber {
 public:
  // stack must live as long as the fiber. The body must have ended before the fiber is destroyed.
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

}  // namespace lockstep::comm
