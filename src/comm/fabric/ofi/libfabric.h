// libfabric, loaded when a group first needs it. It takes a fifth of a second to load, with
// libraries of networks that few hosts have, which nobody should pay who does not communicate
// through it.
#pragma once

#include <rdma/fabric.h>

#include "base/result.h"

namespace lockstep {

// The functions that libfabric exports; all others are called through its objects.
struct Libfabric {
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;  // of nullptr: an empty one
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;
  decltype(&::fi_version) version = nullptr;
};

// Code::unavailable when this host has none. Stays loaded; from any thread.
Result<void> load_libfabric();
// After load_libfabric() was well.
const Libfabric& libfabric();

}  // namespace lockstep
