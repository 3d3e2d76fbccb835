// OpenFindings: the findings of an attempt that go on, and the changes that are to be stored.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "platform/core/model/finding.h"

namespace lockstep::finding {

using model::Finding;
using model::FindingKind;
using model::Subject;

class OpenFindings {
 public:
  // The fault is observed: opens a finding, or prolongs the open one. A finding that is open keeps
  // its beginning. While it goes on, it is changed at most every 10 s.
  void observe(const Subject& subject, Time since, Time now, std::string text, bool of_hardware);
  // The same for a fault of a moment: each one is a change.
  void record(const Subject& subject, Time now, std::string text, bool of_hardware);
  // The fault is over.
  void end(const Subject& subject, Time now);
  bool has(const Subject& subject) const { return open_.contains(subject); }

  // One that was stored as open.
  void restore(Finding finding) { open_[finding.subject] = std::move(finding); }
  // The changes since the last call, in order.
  std::vector<Finding> take_changes() { return std::exchange(changes_, {}); }

 private:
  void change(const Subject& subject, Time since, Time now, std::string text, bool of_hardware);

  std::map<Subject, Finding> open_;
  std::vector<Finding> changes_;
};

}  // namespace lockstep::finding
