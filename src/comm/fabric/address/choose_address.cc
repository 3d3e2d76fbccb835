#include "comm/fabric/address/choose_address.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/format.h"
#include "comm/fabric/address/kernel_network.h"

namespace lockstep::comm {
namespace {

// Bridges, and the host's ends of the networks of containers and virtual machines.
constexpr std::array<std::string_view, 14> kVirtualPrefixes = {
    "docker", "veth", "br-",    "virbr",  "vnet", "cni",   "flannel",
    "cali",   "lxc",  "podman", "cilium", "kube", "weave", "tap"};

bool is_virtual(const InterfaceAddress& own) {
  return std::ranges::any_of(kVirtualPrefixes,
                             [&](auto prefix) { return own.interface.starts_with(prefix); });
}

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1";
}
bool is_link_local(const InterfaceAddress& own) {
  return own.address.starts_with("fe80:") || own.address.starts_with("169.254.");
}

std::string names_of(const std::vector<InterfaceAddress>& all) {
  std::string names;
  for (const auto& own : all)
    if (own.up) names += (names.empty() ? "" : ", ") + text(own);
  return names.empty() ? "none" : names;
}

std::optional<InterfaceAddress> find_address(const std::vector<InterfaceAddress>& all,
                                             const std::string& address) {
  const auto found = std::ranges::find(all, address, &InterfaceAddress::address);
  return found == all.end() ? std::nullopt : std::optional(*found);
}

Result<InterfaceAddress> find_by_interface(const std::string& name,
                                           const std::vector<InterfaceAddress>& all) {
  const auto found = std::ranges::find(all, name, &InterfaceAddress::interface);
  if (found == all.end())
    return Error{Code::invalid, format("LOCKSTEP_INTERFACE: this host has no interface '{}' with "
                                       "an address; it has {}",
                                       name, names_of(all))};
  if (!found->up)
    return Error{Code::unavailable,
                 format("LOCKSTEP_INTERFACE: '{}' is down; this host has {}", name, names_of(all))};
  return *found;
}

// Nullopt when the address is a name that resolves to loopback on this host only.
Result<std::optional<InterfaceAddress>> find_by_address(const std::string& address,
                                                        const std::vector<InterfaceAddress>& all,
                                                        const HostNetwork& network) {
  const auto numeric = network.resolve(address);
  if (!numeric)
    return Error{Code::invalid, format("LOCKSTEP_ADDRESS: the name '{}' is not known on this host; "
                                       "this host has {}",
                                       address, names_of(all))};
  if (auto own = find_address(all, *numeric)) return own;
  // All of 127.0.0.0/8 is this host, although lo lists one address.
  if (is_loopback(address)) return std::optional(InterfaceAddress{address, "lo", true, true});
  if (is_loopback(*numeric)) return std::optional<InterfaceAddress>();
  return Error{Code::invalid,
               format("LOCKSTEP_ADDRESS: {} is no address of this host, which has {}; "
                      "LOCKSTEP_INTERFACE takes an interface's name",
                      address, names_of(all))};
}

std::optional<InterfaceAddress> find_by_route(const std::string& meeting_host,
                                              const std::vector<InterfaceAddress>& all,
                                              const HostNetwork& network) {
  const auto there = network.resolve(meeting_host);
  if (!there) return std::nullopt;
  const bool meant_here = meeting_host == "localhost" || is_loopback(meeting_host);
  if (is_loopback(*there) && !meant_here) return std::nullopt;
  const auto source = network.source_address_for(*there);
  return source ? find_address(all, *source) : std::nullopt;
}

std::optional<InterfaceAddress> best_guess(const std::vector<InterfaceAddress>& all) {
  const auto usable = [](const InterfaceAddress& own) {
    return own.up && !own.loopback && !is_virtual(own);
  };
  for (const bool link_local : {false, true})
    for (const auto& own : all)
      if (usable(own) && is_link_local(own) == link_local) return own;
  return std::nullopt;
}

}  // namespace

std::string text(const InterfaceAddress& own) {
  return format("{} ({})", own.interface, own.address);
}

Result<InterfaceAddress> choose_address(const NetworkOptions& options, const HostNetwork& network) {
  const auto all = network.local_addresses();
  if (!options.interface.empty()) return find_by_interface(options.interface, all);
  if (!options.address.empty())
    if (auto own = TRY(find_by_address(options.address, all, network))) return *own;
  if (!options.rendezvous_host.empty())
    if (auto own = find_by_route(options.rendezvous_host, all, network)) return *own;
  return best_guess(all).value_or(InterfaceAddress{"127.0.0.1", "lo", true, true});
}

Result<InterfaceAddress> choose_address(const NetworkOptions& options) {
  return choose_address(options, KernelNetwork());
}

}  // namespace lockstep::comm
