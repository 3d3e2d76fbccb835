// Suspicion: hosts whose nodes are lost. After the second run that lost an attempt there within a
// day a host is avoided, after the third drained, and the reason names the runs. No more than a
// tenth of the hosts is drained so: when more of them fail, it is not the hosts. What people have
// set of a host stands, and `lockstep host release` clears its name.
#pragma once

#include "platform/core/step/draft.h"

namespace lockstep {

// The run's attempt is to end because its node on this host was lost.
void suspect(Draft& draft, const std::string& host, const RunId& run);
// At a tick: a day without another loss clears a host that is avoided.
void forgive(Draft& draft);

}  // namespace lockstep
