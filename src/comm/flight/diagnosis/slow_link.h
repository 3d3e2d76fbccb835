// Slow links: links where both ranks wait for the wire at the same time.
//
// A long transfer keeps every link busy, and a late rank makes its successor wait, which makes the
// next one wait. So in a slow ring almost all ranks wait for data. But only before a slow link does
// data pile up. So, per collective,
//
//   waited for the link = the lesser of: how long the sender waited for the receiver to take data,
//   or
//                         for a third rank while its sent data was queued before the wire, and how
//                         long the receiver waited for this sender to send data
//
// The third rank matters in a ring. In its steps no rank is more than a few pieces ahead, so the
// limit of unacknowledged data is never reached.
//
// The value is zero where one of them waits for the other and not for the wire. A link is slow if
// the value is a large share of the time, and several times that of similar links: within a host
// links are compared with links within hosts, between hosts with links between hosts.
//
// Limits: only waits of more than about 0.1 ms are recorded, so detection depends on a link's
// bandwidth and not on its latency. Each collective contributes the longest wait of either kind. If
// all links of a kind are slow, or there is only one, none is reported.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/flight/diagnosis/group.h"

namespace lockstep::comm {

struct LinkEnd {
  int rank = 0;
  std::string host;
};

struct SlowLink {
  LinkEnd from;
  LinkEnd to;
  std::string group;
  double cost_share = 0;    // of the time: the wait of both for it
  double others_share = 0;  // the median of the same for similar links
  std::size_t collectives = 0;
};

struct SlowLinkThresholds {
  std::size_t collectives_max = 512;  // the collectives to examine
  std::size_t collectives_min = 32;   // the minimum for any result
  double cost_share_min = 0.05;
  double others_ratio_min = 3;  // relative to the others' median
};

// The most expensive link, if any: a rank that cannot send also delays its acknowledgements, so the
// link to it looks slow as well. Empty for a group with a missing record.
std::vector<SlowLink> find_slow_links(const FlightGroup& group,
                                      const SlowLinkThresholds& bounds = {});

// "the link from rank 3 on host a to rank 4 on host b is slow: both waited for it 41 % of the time
// of the last 512 collectives of world, for links like it 3 %"
std::string text(const SlowLink& link);

}  // namespace lockstep::comm
