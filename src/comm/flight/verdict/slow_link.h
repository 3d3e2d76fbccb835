// Slow links: from one rank to another, where both wait for the wire at the same time.
//
// Of a long transfer all links have much to carry, and a rank that is late leaves the one behind it
// waiting, who leaves the next waiting: nearly everybody waits for data in a slow ring. But only in
// front of a slow link data pile up. So, per collective,
//
//   waited for the link = the lesser of: how long the sender waited for the other to take data, or
//                         for a third while what it had sent lay before the wire, and how long the
//                         receiver waited for this one to send some
//
// The third is who matters in a ring, in whose steps nobody is more than a few pieces ahead, so
// that what may be on the way unacknowledged is never full.
//
// which is nothing where one of them waits for the other and not for the wire. A link is slow if
// that comes to much of the time, and to several times as much as for the links like it: within a
// host links are compared with links within hosts, between hosts with links between hosts.
//
// Limits: only waits of more than about 0.1 ms are recorded, so a link is told by its bandwidth and
// not by its latency; of each collective the longest wait of either kind. Where all links of a kind
// are slow, or there is one only, none is told.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/flight/verdict/group.h"

namespace lockstep {

struct LinkEnd {
  int rank = 0;
  std::string host;
};

struct SlowLink {
  LinkEnd from;
  LinkEnd to;
  std::string group;
  double cost = 0;    // of the time: what both waited for it
  double others = 0;  // the same of the links like it, in the median
  std::size_t collectives = 0;
};

struct SlowLinkBounds {
  std::size_t newest = 512;  // collectives to look at
  std::size_t least = 32;    // that it takes to say anything
  double cost = 0.05;
  double times = 3;  // the others' median
};

// The costliest, if there is one: what a rank cannot get out holds up its acknowledgements, too, so
// that the link into it looks slow. Nothing of a group of which a record is missing.
std::vector<SlowLink> slow_links_of(const FlightGroup& group, const SlowLinkBounds& bounds = {});

// "the link from rank 3 on host a to rank 4 on host b is slow: both waited for it 41 % of the time
// of the last 512 collectives of world, for links like it 3 %"
std::string words_of(const SlowLink& link);

}  // namespace lockstep
