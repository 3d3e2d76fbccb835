// libfabric, loaded when a group first needs it. Loading takes a fifth of a second and includes
// libraries for networks that few hosts have. A program that does not use it must not pay for that.
#pragma once

#include <rdma/fabric.h>

#include "base/result.h"

namespace lockstep::comm {

// The functions that libfabric exports; all others are called through its objects.
struct Libfabric {
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;  // of nullptr: returns an empty one
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;
  decltype(&::fi_version) version = nullptr;
};

// Code::unavailable when this host does not have it. Stays loaded; from any thread.
Result<void> load_libfabric();
// Call only after load_libfabric() succeeded.
const Libfabric& libfabric();

}  // namespace lockstep::comm
