// FindingWatch: the detectors of the attempts that report, their findings in the store, and the
// acts that follow.
//
// It sees what was stored of each heartbeat. The store has the open findings and the marks of
// counters, so the next daemon goes on with them. A change that cannot be stored is stored with the
// next one. An act follows the row and is recorded in it; if it fails, it is tried again while the
// finding goes on.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rate_limited_log.h"
#include "base/result.h"
#include "base/units.h"
#include "platform/controller/controller.h"
#include "platform/core/model/finding.h"
#include "platform/core/model/ids.h"
#include "platform/finding/detector.h"
#include "platform/spool/telemetry_item.h"
#include "platform/store/finding_store.h"

namespace lockstep::server {

class FindingWatch {
 public:
  // All outlive this.
  FindingWatch(controller::Controller& controller, store::Database& database, const Clock& clock)
      : controller_(controller), store_(database), clock_(clock), log_(clock) {}

  // Items of a node that were stored. The controller has the node.
  void observe(const model::NodeId& node, std::span<const spool::TelemetryItem> items);

  store::FindingStore& store() { return store_; }

 private:
  struct Attempt {
    finding::Detector detector;
    std::list<store::StoredFinding> rows;  // open, or not stored yet as ended
    std::map<model::Subject, store::StoredFinding*> open;
    std::vector<store::StoredFinding*> unsaved;
    std::vector<store::FindingMark> unsaved_marks;
  };

  Result<Attempt*> attempt_of(const model::AttemptId& id);
  void take_changes(const model::AttemptId& id, Attempt& attempt);
  Result<void> save(const model::AttemptId& id, Attempt& attempt);
  void act_on(const model::AttemptId& id, store::StoredFinding& row, bool is_new);
  model::FindingAct wanted_act(const model::Finding& finding) const;
  Result<void> set_host(const store::StoredFinding& row, model::FindingAct act);
  void end_attempts();

  controller::Controller& controller_;
  store::FindingStore store_;
  const Clock& clock_;
  std::map<model::AttemptId, std::unique_ptr<Attempt>> attempts_;
  Time next_end_{};
  RateLimitedLog log_;
};

// "straggler: rank 5, device 1 of host b: its steps take ..."
std::string text_of(const store::StoredFinding& stored);

}  // namespace lockstep::server
