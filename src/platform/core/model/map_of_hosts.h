// The map of a cluster whose hosts join.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "map/map.h"
#include "platform/core/model/operator_rows.h"

namespace lockstep::model {

// The engine of the hosts that join.
inline constexpr std::string_view kHostsEngine = "hosts";

// The hosts that have facts, in pods of one leaf each. Pods and hosts are in the order of their
// names. Labels are those of the rows. The cluster's name, the link between pods and the
// measurements are those of `rest`; so are the pods of other engines, which come first. With those
// each host that joined has the label `engine`, as theirs have.
map::ClusterMap map_of_hosts(const std::map<std::string, HostRow>& hosts,
                             const map::ClusterMap& rest = {});

// True if a host of this name is one of another engine.
bool is_host_of_other_engine(const map::ClusterMap& map, std::string_view host);
// The map without hosts of other engines that have the name of one that joined. Their names.
std::vector<std::string> drop_hosts_that_joined(map::ClusterMap& map,
                                                const std::map<std::string, HostRow>& hosts);

// True if the map differs between the two rows of one host; null: it had none.
bool changes_map(const HostRow* before, const HostRow& after);

}  // namespace lockstep::model
