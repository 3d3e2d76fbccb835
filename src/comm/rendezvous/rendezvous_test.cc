#include <atomic>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/fd.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/local.h"
#include "comm/rendezvous/server.h"
#include "net/reserved_port.h"

namespace lockstep::comm {
namespace {

Deadline soon() { return Deadline::after(std::chrono::seconds(10)); }
Deadline at_once() { return Deadline::after(std::chrono::milliseconds(20)); }

struct ServerForTest {
  net::Secret secret = net::Secret::random();
  std::unique_ptr<RendezvousServer> server;

  explicit ServerForTest(RendezvousLimits limits = {})
      : server(RendezvousServer::start("127.0.0.1", 0, secret, limits).value()) {}
  std::unique_ptr<RendezvousClient> client() const {
    return RendezvousClient::connect("127.0.0.1", server->port(), secret, soon()).value();
  }
};

TEST(Rendezvous, AGetWaitsForTheSetOfAnotherClient) {
  ServerForTest place;
  std::thread late([&] { EXPECT_TRUE(place.client()->set("key", "value").has_value()); });
  EXPECT_EQ(place.client()->get("key", soon()).value(), "value");
  late.join();
}

TEST(Rendezvous, AMissingKeyIsNamedAtTheDeadlineAndTheClientGoesOn) {
  ServerForTest place;
  auto client = place.client();
  auto missing = client->get("nobody", at_once());
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, Code::timeout);
  EXPECT_NE(missing.error().message.find("nobody"), std::string::npos);
  // The response to the first get arrives now, late, and is not used for the second.
  EXPECT_TRUE(client->set("nobody", "came").has_value());
  EXPECT_TRUE(client->set("other", "right").has_value());
  EXPECT_EQ(client->get("other", soon()).value(), "right");
}

TEST(Rendezvous, AWrongSecretIsRefusedOnBothSides) {
  ServerForTest place;
  auto client =
      RendezvousClient::connect("127.0.0.1", place.server->port(), net::Secret::random(), soon());
  ASSERT_FALSE(client.has_value());
  EXPECT_EQ(client.error().code, Code::denied);
  EXPECT_NE(client.error().message.find("secret"), std::string::npos);
}

TEST(Rendezvous, AStrangerThatProvesNothingGetsNoAnswerToARequest) {
  ServerForTest place;
  auto stranger = net::Socket::connect_tcp("127.0.0.1", place.server->port(), soon()).value();
  ASSERT_TRUE(send_frame(stranger, join_fields({"1", "S", "key", "value"}), soon()).has_value());
  EXPECT_FALSE(recv_frame(stranger, soon()).has_value());
}

TEST(Rendezvous, AnEntryIsSetOnce) {
  ServerForTest place;
  auto client = place.client();
  EXPECT_TRUE(client->set("key", "a").has_value());
  EXPECT_TRUE(client->set("key", "a").has_value());
  auto again = client->set("key", "b");
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, Code::already_exists);
}

TEST(Rendezvous, WhatExceedsItsBoundsIsRefused) {
  ServerForTest place({.connections = 8, .entries = 1, .entry = 100_B});
  auto client = place.client();
  auto large = client->set("large", std::string(200, 'x'));
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code, Code::exhausted);
  EXPECT_TRUE(client->set("one", "1").has_value());
  auto second = client->set("two", "2");
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::exhausted);
}

TEST(Rendezvous, WithoutAFreeFileDescriptorTheServerRestsAndThenGoesOn) {
  std::atomic<int> lines = 0;
  std::chrono::steady_clock::time_point begun;
  double seconds = 0;  // without a free descriptor
  set_log_sink([&](LogLevel, std::string_view) { ++lines; });
  {
    ServerForTest place;
    const Fd waiting(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(place.server->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit none{3, before.rlim_max};
    begun = std::chrono::steady_clock::now();
    ::setrlimit(RLIMIT_NOFILE, &none);
    EXPECT_EQ(::connect(waiting.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    for (auto bound = soon(); lines == 0 && !bound.passed();) ::poll(nullptr, 0, 100);
    ::setrlimit(RLIMIT_NOFILE, &before);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    EXPECT_TRUE(place.client()->set("key", "value").has_value());
  }
  set_log_sink({});
  EXPECT_GE(lines, 1);
  EXPECT_LE(lines, 2 + seconds) << "it rests a second each time";
}

TEST(Rendezvous, TheServerKnowsWhenItsClientsHaveLeft) {
  ServerForTest place;
  auto first = place.client(), second = place.client();
  EXPECT_TRUE(first->set("key", "value"));
  EXPECT_TRUE(place.server->wait_until_left(0, at_once()));
  EXPECT_FALSE(place.server->wait_until_left(1, at_once())) << "both are there";
  first.reset();
  EXPECT_TRUE(place.server->wait_until_left(1, soon()));
  EXPECT_FALSE(place.server->wait_until_left(2, at_once()));
  second.reset();
  EXPECT_TRUE(place.server->wait_until_left(2, soon()));
}

// Sets a key, and leaves when the other end of `stays` is closed.
[[noreturn]] void be_client(const net::Secret& secret, int port_pipe, int stays) {
  std::uint16_t port = 0;
  if (::read(port_pipe, &port, sizeof port) != sizeof port) ::_exit(1);
  const auto client = RendezvousClient::connect("127.0.0.1", port, secret, soon());
  if (!client || !(*client)->set("here", "yes")) ::_exit(2);
  char nothing = 0;
  ::_exit(::read(stays, &nothing, 1) == 0 ? 0 : 3);
}

TEST(Rendezvous, AClientLeavesWhileAForkedChildOfTheServerHoldsItsConnection) {
  const auto secret = net::Secret::random();
  int ports[2], ends[2];
  ASSERT_EQ(::pipe2(ports, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd port_reader(ports[0]), port_writer(ports[1]), end_reader(ends[0]);
  Fd end_writer(ends[1]);
  const pid_t client = ::fork();
  if (client == 0) {
    end_writer = Fd();
    be_client(secret, port_reader.get(), end_reader.get());
  }
  const auto server = RendezvousServer::start("127.0.0.1", 0, secret, {}).value();
  const std::uint16_t port = server->port();
  ASSERT_EQ(::write(port_writer.get(), &port, sizeof port), sizeof port);
  const auto other = RendezvousClient::connect("127.0.0.1", port, secret, soon()).value();
  ASSERT_EQ(other->get("here", soon()).value(), "yes");
  const pid_t holder = ::fork();  // as an agent's, before it executes a rank
  if (holder == 0) {
    ::close(end_writer.get());
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  end_writer = Fd();
  EXPECT_TRUE(server->wait_until_left(1, soon()));
  EXPECT_TRUE(other->set("still", "served").has_value());
  EXPECT_EQ(other->get("still", soon()).value(), "served");
  ::kill(holder, SIGKILL);
  for (const pid_t child : {holder, client}) EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(Rendezvous, NobodyListeningEndsAtTheDeadline) {
  auto reserved = net::ReservedPort::open().value();
  auto client =
      RendezvousClient::connect("127.0.0.1", reserved.number(), net::Secret::random(), at_once());
  ASSERT_FALSE(client.has_value());
  EXPECT_EQ(client.error().code, Code::unavailable);
}

TEST(LocalRendezvous, GroupsHaveKeySpacesOfTheirOwn) {
  LocalRendezvous local;
  PrefixedRendezvous a(local, "a"), b(local, "b");
  EXPECT_TRUE(a.set("key", "1").has_value());
  EXPECT_TRUE(b.set("key", "2").has_value());
  EXPECT_EQ(a.get("key", soon()).value(), "1");
  EXPECT_EQ(local.get("b/key", soon()).value(), "2");
  EXPECT_EQ(local.get("key", at_once()).error().code, Code::timeout);
}

TEST(Frames, FieldsComeApartAgainAndOthersAreRefused) {
  const auto joined = join_fields({"", std::string("a\0b", 3), "c"});
  EXPECT_EQ(split_fields(joined, 3).value()[1], std::string("a\0b", 3));
  EXPECT_FALSE(split_fields(joined, 2).has_value());
  EXPECT_FALSE(split_fields(joined + "x", 3).has_value());
  EXPECT_FALSE(split_fields("\xff\xff\xff\xff", 1).has_value());
}

}  // namespace
}  // namespace lockstep::comm
