#include "net/stream/splice.h"

#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "net/detail/loop_impl.h"
#include "net/detail/upgraded_impl.h"

namespace lockstep::net {

namespace asio = boost::asio;

struct Splice::State {
  Loop& loop;
  UpgradedConnection one, other;
  std::function<void()> ended;

  void close() {
    one.impl().close();
    other.impl().close();
    if (ended) loop.post(std::exchange(ended, nullptr));
  }

  static asio::awaitable<void> copy(std::shared_ptr<State> state, UpgradedConnection& from,
                                    UpgradedConnection& to) {
    constexpr std::size_t kCopyBytes = 64 << 10;
    std::vector<char> buffer(kCopyBytes);
    for (;;) {
      const auto [error, size] = co_await from.impl().read_some(asio::buffer(buffer));
      if (error || size == 0) break;
      if (co_await to.impl().write(asio::buffer(buffer.data(), size))) break;
    }
    state->close();
  }
};

Splice::Splice(std::shared_ptr<State> state) : state_(std::move(state)) {}
Splice::Splice(Splice&&) noexcept = default;
Splice& Splice::operator=(Splice&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Splice::~Splice() {
  if (!state_) return;
  state_->ended = nullptr;
  state_->close();
}

Splice Splice::start(Loop& loop, UpgradedConnection one, UpgradedConnection other,
                     std::function<void()> ended) {
  auto state =
      std::make_shared<State>(State{loop, std::move(one), std::move(other), std::move(ended)});
  auto& context = loop.impl().context;
  asio::co_spawn(context, State::copy(state, state->one, state->other), asio::detached);
  asio::co_spawn(context, State::copy(state, state->other, state->one), asio::detached);
  return Splice(std::move(state));
}

}  // namespace lockstep::net
