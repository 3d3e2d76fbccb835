// Nodes that are given up: an attempt drains, its last nodes must be killed, and their hosts do not
// answer. The attempt ends without these nodes, so that its run starts again elsewhere. Their
// devices stay allocated until the nodes are gone.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "platform/core/step/handlers/draft.h"

namespace lockstep::step {

// `stuck`: the nodes of the attempt that must be killed. Gives them up if they are all that is left
// of the attempt, and all their hosts are silent.
void give_up_stuck_nodes(Draft& draft, const model::AttemptId& attempt,
                         const std::vector<model::NodeId>& stuck,
                         const std::set<std::string>& silent_hosts);

// At a tick: kills the given-up nodes of hosts that answer again. Those of hosts that do not answer
// are gone once their agents have certainly ended them (Attempt::lease).
void check_given_up_nodes(Draft& draft, const std::set<std::string>& silent_hosts);

// No process of the given-up node is left, so its devices are free.
void free_given_up_node(Draft& draft, const model::NodeId& node);

// The node counted as gone, and its host lists processes of it: an operator declared a host dead
// that lives, for example. It holds all devices of the host, and the next tick kills it.
void take_back_node(Draft& draft, const model::NodeId& node);

// The first given-up node on the host; null if there is none.
const model::GivenUpNode* find_given_up_node(const Draft& draft, const std::string& host);

}  // namespace lockstep::step
