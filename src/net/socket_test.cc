#include "net/socket.h"

#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/crypto.h"
#include "net/reserved_port.h"

namespace lockstep::net {
namespace {

Deadline in_time() { return Deadline::after(std::chrono::seconds(10)); }

struct SocketPair {
  Socket client, server;
};

Socket accept(Listener& listener) {
  EXPECT_TRUE(wait_ready(listener.fd(), POLLIN, in_time(), "waiting for a connection"));
  return listener.try_accept().value().value();
}

SocketPair tcp_pair() {
  auto listener = Listener::tcp("127.0.0.1", 0).value();
  auto client = Socket::connect_tcp("127.0.0.1", listener.port(), in_time()).value();
  return {std::move(client), accept(listener)};
}

SocketPair unix_pair() {
  const auto name = "@lockstep-test-" + random_hex(8);
  auto listener = Listener::unix_socket(name).value();
  auto client = Socket::connect_unix(name, in_time()).value();
  return {std::move(client), accept(listener)};
}

TEST(Socket, CarriesMoreThanTheKernelBuffers) {
  auto pair = tcp_pair();
  std::vector<std::byte> sent(8 << 20), got(sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 31 >> 3);
  std::thread sender([&] { EXPECT_TRUE(pair.client.send_all(sent, in_time()).has_value()); });
  EXPECT_TRUE(pair.server.recv_all(got, in_time()).has_value());
  sender.join();
  EXPECT_EQ(sent, got);
}

TEST(Socket, AClosedPeerIsNamedAsSuchAndRaisesNoSignal) {
  auto pair = unix_pair();
  pair.client.close();
  std::byte byte{};
  auto got = pair.server.recv_all({&byte, 1}, in_time());
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code, Code::peer_lost);
  auto sent = pair.server.send_all({&byte, 1}, in_time());
  ASSERT_FALSE(sent.has_value());
  EXPECT_EQ(sent.error().code, Code::peer_lost);
}

TEST(Socket, EveryWaitEndsAtItsDeadline) {
  auto pair = tcp_pair();
  std::byte byte{};
  auto got = pair.server.recv_all({&byte, 1}, Deadline::after(std::chrono::milliseconds(20)));
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code, Code::timeout);
}

TEST(Socket, NobodyListeningIsUnavailable) {
  auto reserved = ReservedPort::open().value();
  auto socket = Socket::connect_tcp("127.0.0.1", reserved.number(), in_time());
  ASSERT_FALSE(socket.has_value());
  EXPECT_EQ(socket.error().code, Code::unavailable);
}

TEST(Socket, AReservedPortMayBeListenedOnByWhomItWasReservedFor) {
  auto reserved = ReservedPort::open().value();
  auto listener = Listener::tcp("127.0.0.1", reserved.number());
  ASSERT_TRUE(listener.has_value()) << listener.error().message;
  EXPECT_TRUE(Socket::connect_tcp("127.0.0.1", reserved.number(), in_time()).has_value());
}

TEST(Socket, ADescriptorPassesOverAUnixSocket) {
  auto pair = unix_pair();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Fd read_end(ends[0]), write_end(ends[1]);
  ASSERT_TRUE(pair.client.send_fd(write_end.get(), in_time()).has_value());
  auto got = pair.server.recv_fd(in_time());
  ASSERT_TRUE(got.has_value());
  ASSERT_EQ(write(got->get(), "x", 1), 1);
  char c = 0;
  ASSERT_EQ(read(read_end.get(), &c, 1), 1);
  EXPECT_EQ(c, 'x');
}

TEST(HostPort, BothFormsComeBack) {
  EXPECT_EQ(text(parse_host_port("node-1:80").value()), "node-1:80");
  EXPECT_EQ(text(parse_host_port("[::1]:80").value()), "[::1]:80");
  EXPECT_EQ(parse_host_port("[::1]:80")->host, "::1");
  for (const char* bad : {"", "host", ":80", "host:", "host:x", "host:70000", "[]:1"})
    EXPECT_FALSE(parse_host_port(bad).has_value()) << bad;
}

}  // namespace
}  // namespace lockstep::net
