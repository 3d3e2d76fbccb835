// libfabric's handles as unique_ptrs; their deleters are here and nowhere else.
#pragma once

#include <memory>
#include <string_view>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "base/format.h"
#include "base/result.h"
#include "comm/fabric/ofi/libfabric.h"

namespace lockstep::comm {

struct FidCloser {
  template <class Handle>
  void operator()(Handle* handle) const {
    fi_close(&handle->fid);
  }
};
template <class Handle>
using FidPtr = std::unique_ptr<Handle, FidCloser>;

struct InfoFreer {
  void operator()(fi_info* info) const { libfabric().freeinfo(info); }
};
using InfoPtr = std::unique_ptr<fi_info, InfoFreer>;

// status is negative, as libfabric returns it.
inline Error ofi_error(std::string_view what, long status) {
  return {Code::unavailable,
          format("{}: libfabric says: {}", what, libfabric().strerror(static_cast<int>(-status)))};
}

// Calls open(&raw) and takes ownership of the handle.
template <class Handle, class Open>
Result<FidPtr<Handle>> open_fid(std::string_view what, Open open) {
  Handle* raw = nullptr;
  if (const int status = open(&raw); status != 0) return ofi_error(what, status);
  return FidPtr<Handle>(raw);
}

}  // namespace lockstep::comm
