// Nodes whose agents are silent. Silence alone does not show that a node has failed: the daemon may
// be slow, or the network between them may be cut, and ranks go on without a daemon. So a node is
// first unreachable: nothing is killed, and it keeps its devices. It is lost only after a longer
// time, and after a much longer one if many nodes are silent at once.
#pragma once

#include "platform/core/step/handlers/draft.h"

namespace lockstep::step {

// So many nodes on several hosts are unreachable that the daemon or the network must be at fault.
bool is_silence_widespread(const Draft& draft);

// Marks the nodes as unreachable that have been silent for long enough, except those of attempts
// that drain: these are killed anyway.
void mark_unreachable_nodes(Draft& draft, const model::Tick& tick);

// Marks a silent node as lost and kills it, once its time is over. If its host is silent too, and
// its ranks may go on, that is only at the end of its lease.
void check_heartbeat(Draft& draft, const model::Node& node, const model::Tick& tick,
                     bool is_widespread);

// While the silence is widespread, nothing is lost or given up before the longer limit.
Duration limit_while_silent(const Draft& draft, Duration limit, bool is_widespread);

// Without the time for which the daemon was slow. But a daemon that is always slow must not wait
// without a bound.
bool is_silent_for(const Draft& draft, const model::Node& node, const model::Tick& tick,
                   Duration limit);

// The unreachable node has called again.
void mark_reachable(Draft& draft, const model::NodeId& node);

bool has_unreachable_node(const Draft& draft, const model::AttemptId& attempt);

}  // namespace lockstep::step
