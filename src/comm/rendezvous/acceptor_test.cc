#include "comm/rendezvous/acceptor.h"

#include <array>
#include <future>

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;

struct AcceptorForTest {
  net::Secret secret = net::Secret::random();
  Acceptor acceptor;

  AcceptorForTest() : acceptor(create()) {}
  Acceptor create() const {
    std::vector<net::Listener> listeners;
    listeners.push_back(net::Listener::tcp("127.0.0.1", 0).value());
    return Acceptor::create(secret, "test", std::move(listeners)).value();
  }
  Result<net::Socket> connect() const {
    return net::Socket::connect_tcp("127.0.0.1", acceptor.listener(0).port(), Deadline::after(10s));
  }
  std::future<Result<net::Socket>> caller(const net::Secret& with) const {
    return std::async(std::launch::async, [this, with] {
      return connect_proven(
          [this] { return connect(); }, with, "test", Deadline::after(10s),
          [](net::Socket& socket) { return send_frame(socket, "more", Deadline::after(10s)); });
    });
  }
  std::optional<Acceptor::Caller> next(Deadline deadline) {
    for (;;) {
      auto caller = acceptor.next().value();
      const std::array fds{acceptor.fd()};
      if (caller || !net::wait_readable(fds, deadline).value()) return caller;
    }
  }
};

TEST(Acceptor, WhatFollowsAProofIsStillInTheConnection) {
  AcceptorForTest place;
  auto client = place.caller(place.secret);
  auto caller = place.next(Deadline::after(10s));
  ASSERT_TRUE(caller.has_value());
  EXPECT_EQ(recv_frame(caller->socket, Deadline::after(10s)).value(), "more");
  EXPECT_TRUE(client.get().has_value());
}

TEST(Acceptor, ACallerWithAnotherSecretIsRefusedAndTheNextOneIsTaken) {
  AcceptorForTest place;
  auto stranger = place.caller(net::Secret::random());
  EXPECT_FALSE(place.next(Deadline::after(100ms)).has_value());
  EXPECT_EQ(stranger.get().error().code, Code::denied);
  auto client = place.caller(place.secret);
  EXPECT_TRUE(place.next(Deadline::after(10s)).has_value());
  EXPECT_TRUE(client.get().has_value());
}

TEST(Acceptor, SilentStrangersDelayACallerByTheirTurnsOnly) {
  AcceptorForTest place;
  std::vector<net::Socket> strangers;
  for (int i = 0; i < 120; ++i) strangers.push_back(place.connect().value());
  const auto bound = Deadline::after(10s);
  auto client = place.caller(place.secret);
  EXPECT_TRUE(place.next(bound).has_value());
  EXPECT_TRUE(client.get().has_value());
  EXPECT_GT(bound.remaining(), 5s);
}

TEST(Acceptor, ASilentStrangerIsDroppedAfterASecond) {
  AcceptorForTest place;
  auto stranger = place.connect().value();
  EXPECT_FALSE(place.next(Deadline::after(1200ms)).has_value());
  EXPECT_EQ(recv_frame(stranger, Deadline::after(10s)).error().code, Code::peer_lost);
}

}  // namespace
}  // namespace lockstep::comm
