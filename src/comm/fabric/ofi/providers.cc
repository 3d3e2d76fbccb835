#include "comm/fabric/ofi/providers.h"

#include <algorithm>

#include "comm/fabric/ofi/handles.h"
#include "comm/fabric/ofi/libfabric.h"

namespace lockstep::comm {

std::vector<std::string> usable_providers() {
  if (!load_libfabric()) return {};
  constexpr auto kApiVersion = FI_VERSION(1, 15);
  fi_info* found = nullptr;
  if (libfabric().getinfo(kApiVersion, nullptr, nullptr, 0, nullptr, &found) != 0) return {};
  const InfoPtr owner(found);
  std::vector<std::string> names;
  for (const auto* one = found; one != nullptr; one = one->next) {
    const std::string name = one->fabric_attr->prov_name;
    const std::string core = name.substr(0, name.find(';'));  // "verbs" of "verbs;ofi_rxm"
    if (std::ranges::find(names, core) == names.end()) names.push_back(core);
  }
  return names;
}

}  // namespace lockstep::comm
