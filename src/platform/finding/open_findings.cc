#include "platform/finding/open_findings.h"

#include <algorithm>
#include <chrono>

namespace lockstep::finding {
namespace {

constexpr Duration kUpdateInterval = std::chrono::seconds(10);

}  // namespace

void OpenFindings::observe(const Subject& subject, Time since, Time now, std::string text,
                           bool of_hardware) {
  const auto found = open_.find(subject);
  if (found != open_.end() && now - found->second.last_seen < kUpdateInterval) return;
  change(subject, since, now, std::move(text), of_hardware);
}

void OpenFindings::record(const Subject& subject, Time now, std::string text, bool of_hardware) {
  change(subject, now, now, std::move(text), of_hardware);
}

void OpenFindings::change(const Subject& subject, Time since, Time now, std::string text,
                          bool of_hardware) {
  const auto [found, is_new] = open_.try_emplace(subject);
  Finding& finding = found->second;
  if (is_new) finding = {.subject = subject, .since = since};
  finding.of_hardware = finding.of_hardware || of_hardware;
  finding.last_seen = std::max(finding.last_seen, now);
  finding.text = std::move(text);
  changes_.push_back(finding);
}

void OpenFindings::end(const Subject& subject, Time now) {
  const auto found = open_.find(subject);
  if (found == open_.end()) return;
  found->second.ended = std::max(now, found->second.last_seen);
  changes_.push_back(std::move(found->second));
  open_.erase(found);
}

}  // namespace lockstep::finding
