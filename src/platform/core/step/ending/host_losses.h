// HostLoss: hosts whose nodes are lost. A host is avoided after the second run that lost an attempt
// there within a day, and drained after the third. The reason names the runs. At most a tenth of
// the hosts is drained automatically: if more of them fail, the hosts are not the cause. Settings
// by operators stay, and `lockstep host release` clears the losses.
#pragma once

#include "platform/core/step/handlers/draft.h"

namespace lockstep::step {

// Records that the run's attempt ends because its node on this host was lost.
void record_host_loss(Draft& draft, const std::string& host, const model::RunId& run);
// At a tick: a day without another loss opens an avoided host again.
void clear_expired_losses(Draft& draft);

}  // namespace lockstep::step
