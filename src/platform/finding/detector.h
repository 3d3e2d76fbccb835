// Detector: finds the faults of one attempt in what its agents deliver. Pure: the readings bring
// their times, so the same readings have the same findings whenever they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/finding/device_faults.h"
#include "platform/finding/open_findings.h"
#include "platform/finding/rank_faults.h"

namespace lockstep::finding {

class Detector {
 public:
  void observe_telemetry(int node, Time time, const Readings& readings) {
    ranks_.observe_node(node, time);
    node_of(node).observe(time, readings, findings_);
  }
  void observe_metrics(const RankPlace& place, std::int64_t step, Time time,
                       const Readings& values) {
    ranks_.observe(place, step, time, values, findings_);
  }

  // The size of the attempt.
  void set_size(std::size_t ranks, std::size_t nodes) { ranks_.set_size(ranks, nodes); }
  // As stored by an earlier daemon.
  void restore(Finding finding) { findings_.restore(std::move(finding)); }
  void restore_mark(int node, const std::string& metric, double value) {
    node_of(node).restore_mark(metric, value);
  }

  // The findings that have changed since the last call, in order.
  std::vector<Finding> take_changes() { return findings_.take_changes(); }
  // The marks of counters, by node.
  std::map<int, Readings> take_changed_marks() {
    std::map<int, Readings> changed;
    for (auto& [number, node] : nodes_)
      if (Readings marks = node.take_changed_marks(); !marks.empty())
        changed[number] = std::move(marks);
    return changed;
  }

 private:
  DeviceFaults& node_of(int node) { return nodes_.try_emplace(node, node).first->second; }

  OpenFindings findings_;
  RankFaults ranks_;
  std::map<int, DeviceFaults> nodes_;
};

}  // namespace lockstep::finding
