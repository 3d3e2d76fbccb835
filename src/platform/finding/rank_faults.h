// RankFaults: a rank that is slower than its peers, a rank that is silent, and slow data loading,
// from the metrics of the ranks of one attempt.
//
// Ranks that train together wait for each other, so all of them need the same time for a step. The
// metric `compute_seconds` is the time of a step in which a rank does not wait for other ranks,
// `data_seconds` the time in which it waits for its next batch.
//
// A straggler: a step is judged when every rank that logs has reported it, so that the order in
// which nodes deliver has no effect. A rank is slow in a step if it took 1.4 times the median of
// all ranks. It is a straggler when it was slow in 8 of the last 15 steps, and none any more when
// it was slow in at most 2 of them. So a rank at half speed is found after 8 steps, and a rank that
// is late in single steps, or in 5 steps in a row, never is. Cost: one comparison a rank and step,
// and the median of the ranks.
//
// A silent rank has logged as many steps as the others, and then none while the others logged 20
// more, for at least 30 s, in which its agent has delivered other readings. A rank whose agent is
// away is not silent: its reports come later.
//
// Data loading: the mean over the ranks' last steps of data_seconds is above that of
// compute_seconds, by the same windows.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/finding/open_findings.h"

namespace lockstep::finding {

class RankFaults {
 public:
  // A node has delivered a reading of this time, of whatever kind.
  void observe_node(int node, Time time);
  // The metrics that a rank has logged for a step. A repeated report has no effect.
  void observe(int node, int rank, std::int64_t step, Time time,
               const std::map<std::string, double>& values, OpenFindings& findings);

 private:
  static constexpr std::size_t kWindow = 15;  // steps
  struct Window {
    std::bitset<kWindow> slow;
    std::size_t steps = 0;
    Time since{};  // of the first slow step of the window
    // True: it is slow by now. False: it is not. None: neither is sure.
    std::optional<bool> add(bool is_slow, Time time);
  };
  struct Rank {
    int node = 0;
    std::int64_t step = -1;  // the newest that it has logged
    Time time{};
    std::int64_t timed_step = -1;  // the newest with a compute time
    std::int64_t reports = 0;
    double ratio = 1;  // a moving mean of its time over the median
    Window window;
  };
  struct StepTime {
    int rank = 0;
    double compute = 0;
    std::optional<double> data{};
  };
  struct Step {
    Time time{};
    std::vector<StepTime> times;
  };

  void judge_steps(OpenFindings& findings);
  void judge(const Step& step, OpenFindings& findings);
  void judge_data_loading(const Step& step, OpenFindings& findings);
  void judge_silence(Time now, OpenFindings& findings);
  bool is_complete(const Step& step) const;

  std::map<int, Rank> ranks_;
  std::map<int, Time> nodes_;           // the newest reading of each
  std::map<std::int64_t, Step> steps_;  // that are not judged yet
  std::size_t waiting_times_ = 0;       // of these steps
  std::int64_t judged_ = -1;            // the newest judged step
  std::size_t timed_ranks_ = 0;         // that have logged a compute time
  std::int64_t newest_step_ = -1;
  std::int64_t silence_judged_ = 0;
  Window data_loading_;
};

}  // namespace lockstep::finding
