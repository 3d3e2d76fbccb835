// Loop: the one thread on which a program's networking and timers run. Callbacks must not block; an
// exception from a callback is logged and the loop goes on.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>

#include "base/units.h"

namespace lockstep::net {

// A pending callback. After its destruction or cancellation the callback does not run. Used on the
// loop's thread only; may outlive the loop.
class [[nodiscard]] Timer {
 public:
  Timer() = default;
  Timer(Timer&&) noexcept = default;
  Timer& operator=(Timer&& other) noexcept;
  ~Timer() { cancel(); }

  void cancel();

 private:
  friend class Loop;
  struct State;
  explicit Timer(std::weak_ptr<State> state) : state_(std::move(state)) {}
  // The loop owns the state until the callback has run: timer and loop may be destroyed in any
  // order.
  std::weak_ptr<State> state_;
};

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Runs callbacks on the calling thread until stop(). Called once.
  void run();
  // From any thread: run() returns soon, also one that begins later. Pending callbacks stay
  // pending.
  void stop();
  // From any thread: calls later, on the loop's thread, in the order of posting.
  void post(std::function<void()> call);
  // On the loop's thread, or before run().
  Timer after(Duration wait, std::function<void()> call);
  // Calls with the signal's number whenever one of them arrives; replaces the default action.
  void on_signals(std::initializer_list<int> signals, std::function<void(int)> call);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::net
