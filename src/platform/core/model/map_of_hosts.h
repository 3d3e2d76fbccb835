// The map of a cluster whose hosts join.
#pragma once

#include <map>
#include <string>

#include "map/map.h"
#include "platform/core/model/operator_rows.h"

namespace lockstep::model {

// The hosts that have facts, in pods of one leaf each. Pods and hosts are in the order of their
// names. Labels are those of the rows. The cluster's name, the link between pods and the
// measurements are those of `rest`.
map::ClusterMap map_of_hosts(const std::map<std::string, HostRow>& hosts,
                             const map::ClusterMap& rest = {});

// True if the map differs between the two rows of one host; null: it had none.
bool changes_map(const HostRow* before, const HostRow& after);

}  // namespace lockstep::model
