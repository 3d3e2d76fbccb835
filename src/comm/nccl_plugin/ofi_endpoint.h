// OfiEndpoint: the TaggedEndpoint over libfabric, one reliable-datagram endpoint with its domain.
#pragma once

#include <memory>

#include "comm/nccl_plugin/devices.h"
#include "comm/nccl_plugin/endpoint.h"

namespace lockstep::comm::nccl {

// Takes the memory of GPUs if the device does: its info then has FI_RMA.
Result<std::unique_ptr<TaggedEndpoint>> open_endpoint(const Device& device);

// Sets the options of a provider. set(name, value) returns libfabric's status.
template <class Set>
Result<void> apply_options(const Quirks& quirks, Set set) {
  for (const auto& option : quirks.options) {
    const long status = set(option.name, option.value);
    if (status != 0 && status != -FI_ENOPROTOOPT && status != -FI_EOPNOTSUPP)
      return ofi_error(format("setting option {} of provider {}", option.name, quirks.provider),
                       status);
  }
  return {};
}

}  // namespace lockstep::comm::nccl
