#include "platform/core/notice/target.h"

#include <algorithm>

namespace lockstep::notice {
namespace {

using model::NoticeKind;

bool is_of(Cause cause, NoticeKind kind) {
  switch (cause) {
    case Cause::ended:
      return kind == NoticeKind::run_ended || kind == NoticeKind::run_failed;
    case Cause::failed:
      return kind == NoticeKind::run_failed;
    case Cause::budget:
      return kind == NoticeKind::budget_warning;
    case Cause::finding:
      return kind == NoticeKind::finding;
  }
  return false;
}

}  // namespace

bool matches(const Target& target, const model::Notice& notice) {
  if (!target.project.empty() && target.project != notice.project) return false;
  if (target.scope == Scope::own && target.user != notice.user) return false;
  return std::ranges::any_of(target.on, [&](Cause cause) { return is_of(cause, notice.kind); });
}

}  // namespace lockstep::notice
