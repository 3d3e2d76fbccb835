#include "comm/fabric/address/kernel_network.h"

#include <memory>

#include <ifaddrs.h>
#include <net/if.h>  // IWYU pragma: keep: IFF_UP, which is a macro and an enumerator
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os/fd.h"

namespace lockstep::comm {
namespace {

// Only the route is requested; no packet is sent. Any port but 0 works.
constexpr const char* kAnyPort = "9";

std::optional<std::string> numeric(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST] = {};
  if (getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    return std::nullopt;
  return host;
}

using Found = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Found look_up(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), kAnyPort, &hints, &found) != 0) found = nullptr;
  return {found, &freeaddrinfo};
}

}  // namespace

std::vector<InterfaceAddress> KernelNetwork::local_addresses() const {
  std::vector<InterfaceAddress> own;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return own;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    for (const auto* one = all; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family) continue;
      constexpr unsigned kUsable = IFF_UP | IFF_RUNNING;
      if (auto address = numeric(one->ifa_addr, size))
        own.push_back({*std::move(address), one->ifa_name, (one->ifa_flags & IFF_LOOPBACK) != 0,
                       (one->ifa_flags & kUsable) == kUsable});
    }
  }
  return own;
}

std::optional<std::string> KernelNetwork::resolve(const std::string& host) const {
  const auto found = look_up(host);
  if (!found) return std::nullopt;
  return numeric(found->ai_addr, found->ai_addrlen);
}

std::optional<std::string> KernelNetwork::source_address_for(const std::string& address) const {
  const auto there = look_up(address);
  if (!there) return std::nullopt;
  const Fd socket(::socket(there->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage source{};
  socklen_t size = sizeof source;
  auto* const raw = reinterpret_cast<sockaddr*>(&source);
  if (!socket || ::connect(socket.get(), there->ai_addr, there->ai_addrlen) != 0 ||
      ::getsockname(socket.get(), raw, &size) != 0)
    return std::nullopt;
  return numeric(raw, size);
}

}  // namespace lockstep::comm
