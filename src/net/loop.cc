#include "net/loop.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/log.h"
#include "net/detail/loop_impl.h"

namespace lockstep::net {

namespace asio = boost::asio;

struct Timer::State {
  asio::steady_timer timer;
  bool cancelled = false;  // the timer may have expired already, with its handler queued
};

Timer& Timer::operator=(Timer&& other) noexcept {
  if (this != &other) {
    cancel();
    state_ = std::move(other.state_);
  }
  return *this;
}

void Timer::cancel() {
  if (auto state = state_.lock()) {
    state->cancelled = true;
    state->timer.cancel();
  }
  state_.reset();
}

namespace {

void wait_for_signal(asio::signal_set& signals, std::function<void(int)> call) {
  signals.async_wait(
      [&signals, call = std::move(call)](boost::system::error_code error, int number) {
        if (error) return;
        wait_for_signal(signals, call);
        call(number);
      });
}

}  // namespace

Loop::Loop() : impl_(std::make_unique<Impl>()) {}
Loop::~Loop() = default;

void Loop::run() {
  while (!impl_->context.stopped()) {
    try {
      impl_->context.run();
    } catch (const std::exception& exception) {
      LS_LOG(error, "a callback threw: {}", exception.what());
    }
  }
}

void Loop::stop() { impl_->context.stop(); }

void Loop::post(std::function<void()> call) { asio::post(impl_->context, std::move(call)); }

Timer Loop::after(Duration wait, std::function<void()> call) {
  auto state =
      std::make_shared<Timer::State>(Timer::State{asio::steady_timer(impl_->context, wait)});
  state->timer.async_wait([state, call = std::move(call)](boost::system::error_code) {
    if (!state->cancelled) call();
  });
  return Timer(state);
}

void Loop::on_signals(std::initializer_list<int> signals, std::function<void(int)> call) {
  auto set = std::make_unique<asio::signal_set>(impl_->context);
  for (int signal : signals) set->add(signal);
  wait_for_signal(*set, std::move(call));
  impl_->signals.push_back(std::move(set));
}

}  // namespace lockstep::net
