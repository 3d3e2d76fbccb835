// How a call is waited for.
#pragma once

namespace lockstep {

enum class Waiting {
  later,  // it runs in the background; its Pending tells when it is done
  here,   // the call returns when it is done
};

}  // namespace lockstep
