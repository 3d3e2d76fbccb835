#include "comm/nccl_plugin/quirks.h"

#include <algorithm>
#include <array>

namespace lockstep::comm::nccl {
namespace {

// Names of FI_OPT_* that the headers of libfabric 1.17 lack. EFA's driver then makes no calls of
// CUDA, which NCCL forbids to its network, and sends within a host through the NIC: NCCL has its
// own shared memory.
constexpr int kOptionCudaCalls = 10;     // since 1.18
constexpr int kOptionSharedMemory = 11;  // since 1.20
constexpr std::array kEfaOptions = {EndpointOption{kOptionCudaCalls, false},
                                    EndpointOption{kOptionSharedMemory, false}};
// EFA's datagrams (SRD) are reliable and come in any order. Messages carry their number in the tag,
// so that no provider needs to order them.
constexpr std::size_t kEfaMessageLimit = std::size_t{1} << 30;

// The preferred first.
constexpr std::array kTable = {
    Quirks{"efa", 35.0F, 100'000, kEfaMessageLimit, false, false, true, kEfaOptions},
    Quirks{"cxi", 2.0F, 200'000, 0, false, false, true, {}},
    Quirks{"opx", 2.0F, 100'000, 0, false, false, false, {}},
    Quirks{"psm3", 3.0F, 100'000, 0, false, false, false, {}},
    Quirks{"psm2", 2.0F, 100'000, 0, false, false, false, {}},
    Quirks{"verbs", 2.0F, 100'000, 0, true, false, true, {}},
    Quirks{"tcp", 30.0F, 10'000, 0, false, false, false, {}},
    Quirks{"net", 30.0F, 10'000, 0, false, false, false, {}},
    Quirks{"sockets", 50.0F, 10'000, 0, false, false, false, {}},
    Quirks{"udp", 50.0F, 10'000, 0, false, false, false, {}},
    Quirks{"shm", 1.0F, 100'000, 0, true, true, false, {}},
};
constexpr Quirks kUnknown{"", 30.0F, 10'000, 0, false, false, false, {}};

auto find(std::string_view provider) {
  return std::ranges::find(kTable, provider.substr(0, provider.find(';')), &Quirks::provider);
}

}  // namespace

const Quirks& quirks_of(std::string_view provider) {
  const auto found = find(provider);
  return found == kTable.end() ? kUnknown : *found;
}

int preference(std::string_view provider) {
  return static_cast<int>(find(provider) - kTable.begin());
}

}  // namespace lockstep::comm::nccl
