#include "platform/agent/watch/activity_watch.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::agent {
namespace {

// In increasing order of weight: a shell sleeps while its child computes.
constexpr std::array kByWeight = {model::Activity::unknown, model::Activity::sleeping,
                                  model::Activity::running, model::Activity::blocked,
                                  model::Activity::stopped};

auto weight_of(model::Activity activity) { return std::ranges::find(kByWeight, activity); }

model::Activity activity_of(char state) {
  if (state == 'T' || state == 't') return model::Activity::stopped;
  if (state == 'D') return model::Activity::blocked;
  return state == 'R' ? model::Activity::running : model::Activity::sleeping;
}

}  // namespace

RankActivity ActivityWatch::observe(int local_rank, const std::vector<ProcessSample>& processes,
                                    Duration moment) {
  auto& known = stuck_[local_rank];
  std::map<pid_t, StuckProcess> now;
  RankActivity most;
  for (const auto& [process, ran] : processes) {
    RankActivity doing{.activity = activity_of(process.state)};
    if (doing.activity >= model::Activity::blocked) {
      const auto before = known.find(process.pid);
      const bool same = before != known.end() && before->second.activity == doing.activity &&
                        before->second.ran == ran;
      doing.since = same ? before->second.since : moment;
      now[process.pid] = {doing.activity, ran, *doing.since};
    }
    if (doing.activity == model::Activity::blocked && moment - *doing.since < kBlockedAfter)
      doing = {.activity = model::Activity::running};
    const auto weight = weight_of(doing.activity), weight_most = weight_of(most.activity);
    if (weight > weight_most || (weight == weight_most && doing.since < most.since)) most = doing;
  }
  known = std::move(now);
  return most;
}

}  // namespace lockstep::agent
