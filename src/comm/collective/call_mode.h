// Who carries a call out, and when it returns; MPI's words.
#pragma once

namespace lockstep {

enum class CallMode {
  nonblocking,  // it runs in the background; its Pending tells when it is done
  blocking,     // the caller carries it out itself where it can; it returns when it is done
};

}  // namespace lockstep
