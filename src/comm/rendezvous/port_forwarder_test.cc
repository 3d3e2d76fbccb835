#include "comm/rendezvous/port_forwarder.h"

#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>

#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/server.h"
#include "net/reserved_port.h"
#include "net/socket.h"

namespace lockstep::comm {
namespace {

Deadline before_long() { return Deadline::after(std::chrono::seconds(10)); }

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string received(net::Socket& socket, std::size_t size) {
  std::string text(size, '\0');
  const auto got = socket.recv_all(std::as_writable_bytes(std::span(text)), before_long());
  return got ? text : got.error().message;
}

bool is_closed(net::Socket& socket) {
  std::byte one{};
  return !socket.recv_all(std::span(&one, 1), before_long()).has_value();
}

net::Socket accepted(net::Listener& listener) {
  EXPECT_TRUE(net::wait_ready(listener.fd(), POLLIN, before_long(), "accepting").has_value());
  return std::move(*listener.try_accept().value());
}

// The rendezvous of node 0, the store on its loopback, and the forwarder of another host.
class Forwarding : public ::testing::Test {
 protected:
  static net::Listener store_at(std::uint16_t port) {
    return net::Listener::tcp("127.0.0.1", port).value();
  }
  std::string rendezvous_address() const {
    return text(net::HostPort{"127.0.0.1", server_->port()});
  }
  std::unique_ptr<PortForwarder> forwarder(net::Secret secret) const {
    return PortForwarder::start(rendezvous_address(), std::move(secret)).value();
  }
  static net::Socket call(std::uint16_t port) {
    return net::Socket::connect_tcp("127.0.0.1", port, before_long()).value();
  }

  const net::Secret secret_ = net::Secret::random();
  net::ReservedPort port_ = net::ReservedPort::open().value();
  std::unique_ptr<RendezvousServer> server_ =
      RendezvousServer::start("127.0.0.1", 0, secret_, {}, port_.number()).value();
};

TEST_F(Forwarding, AllBytesArriveBothWaysThoughReceiversAreSlow) {
  auto store = store_at(port_.number());
  const auto way = forwarder(secret_);
  net::Socket client = call(way->port());
  net::Socket served = accepted(store);
  const std::string much(std::size_t{3} << 20, 'x');
  std::thread sender([&] {
    EXPECT_TRUE(client.send_all(bytes_of(much), before_long()).has_value());
    EXPECT_TRUE(client.send_all(bytes_of("end"), before_long()).has_value());
  });
  EXPECT_TRUE(served.send_all(bytes_of(much), before_long()).has_value());
  EXPECT_EQ(received(served, much.size() + 3), much + "end");
  sender.join();
  EXPECT_EQ(received(client, much.size()), much);
}

TEST_F(Forwarding, AnEndOfEitherSideReachesTheOther) {
  auto store = store_at(port_.number());
  const auto way = forwarder(secret_);
  net::Socket client = call(way->port());
  accepted(store).close();
  EXPECT_TRUE(is_closed(client));
  net::Socket next = call(way->port());
  net::Socket served = accepted(store);
  next.close();
  EXPECT_TRUE(is_closed(served));
}

TEST_F(Forwarding, ACallerWaitsUntilTheStoreListens) {
  const auto way = forwarder(secret_);
  net::Socket client = call(way->port());
  EXPECT_TRUE(client.send_all(bytes_of("early"), before_long()).has_value());
  net::Socket gone = call(way->port());
  gone.close();
  auto store = store_at(port_.number());
  net::Socket served = accepted(store);
  EXPECT_EQ(received(served, 5), "early");
}

TEST_F(Forwarding, WithoutTheSecretNothingReachesTheStore) {
  auto store = store_at(port_.number());
  const auto way = forwarder(net::Secret::random());
  net::Socket client = call(way->port());
  EXPECT_TRUE(is_closed(client));
  // A stranger that knows the protocol, and one that sends what torch's store sends.
  net::Socket stranger = call(server_->port());
  EXPECT_TRUE(send_frame(stranger, join_fields({"1", "F", "", ""}), before_long()).has_value());
  EXPECT_TRUE(is_closed(stranger));
  net::Socket torch = call(server_->port());
  EXPECT_TRUE(
      torch.send_all(bytes_of("\x09\x3c\x85\x6b\x0f set a key"), before_long()).has_value());
  EXPECT_TRUE(is_closed(torch));
  EXPECT_FALSE(store.try_accept().value().has_value());
}

TEST_F(Forwarding, AMeetingPlaceForwardsOnlyWhereItWasTold) {
  const auto other = RendezvousServer::start("127.0.0.1", 0, secret_).value();
  const auto way =
      PortForwarder::start(text(net::HostPort{"127.0.0.1", other->port()}), secret_).value();
  net::Socket client = call(way->port());
  EXPECT_TRUE(is_closed(client));
}

}  // namespace
}  // namespace lockstep::comm
