#include "net/reserved_port.h"

#include <cstdint>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/os/fd.h"

namespace lockstep::net {
namespace {

Fd listener(int family, int port, bool reuse) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int on = reuse ? 1 : 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 address{};
  address.sin6_family = static_cast<sa_family_t>(family);
  address.sin6_port = htons(static_cast<std::uint16_t>(port));
  socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(socket.get(), 8) != 0)
    return Fd();
  return socket;
}

TEST(ReservedPort, AServerThatReusesAddressesMayListenOnIt) {
  auto port = *ReservedPort::open();
  EXPECT_TRUE(listener(AF_INET, port.number(), true));
  EXPECT_FALSE(listener(AF_INET, port.number(), false));
}

TEST(ReservedPort, NobodyIsGivenItByChance) {
  auto port = *ReservedPort::open();
  for (int i = 0; i < 2000; ++i) {
    Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
    socklen_t size = sizeof any;
    ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&any), &size);
    ASSERT_NE(ntohs(any.sin_port), port.number());
  }
}

}  // namespace
}  // namespace lockstep::net
