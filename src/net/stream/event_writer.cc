#include "net/stream/event_writer.h"

#include <array>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/check.h"
#include "net/detail/loop_impl.h"
#include "net/detail/upgraded_impl.h"

namespace lockstep::net {

namespace asio = boost::asio;

struct EventWriter::State {
  Loop& loop;
  UpgradedConnection connection;
  std::string text{};  // that is being written; empty: none
  bool has_ended = false;

  void close() {
    has_ended = true;
    connection.impl().close();
  }

  // A caller sends nothing more, so what is read is only the end.
  static asio::awaitable<void> wait_for_end(std::shared_ptr<State> state) {
    std::array<char, 256> ignored{};
    for (;;) {
      const auto [error, size] = co_await state->connection.impl().read_some(asio::buffer(ignored));
      if (error || size == 0) break;
    }
    state->close();
  }

  static asio::awaitable<void> send(std::shared_ptr<State> state) {
    const auto error = co_await state->connection.impl().write(asio::buffer(state->text));
    state->text.clear();
    if (error) state->close();
  }
};

EventWriter::EventWriter(std::shared_ptr<State> state) : state_(std::move(state)) {}
EventWriter::EventWriter(EventWriter&&) noexcept = default;
EventWriter& EventWriter::operator=(EventWriter&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

EventWriter::~EventWriter() {
  if (state_) state_->close();
}

EventWriter EventWriter::start(Loop& loop, UpgradedConnection connection) {
  auto state = std::make_shared<State>(State{loop, std::move(connection)});
  asio::co_spawn(loop.impl().context, State::wait_for_end(state), asio::detached);
  return EventWriter(std::move(state));
}

bool EventWriter::is_ready() const { return state_->text.empty() && !state_->has_ended; }
bool EventWriter::has_ended() const { return state_->has_ended; }

void EventWriter::write(std::string text) {
  LS_CHECK(is_ready(), "the last text is still being sent");
  if (text.empty()) return;
  state_->text = std::move(text);
  asio::co_spawn(state_->loop.impl().context, State::send(state_), asio::detached);
}

}  // namespace lockstep::net
