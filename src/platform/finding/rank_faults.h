// RankFaults: a rank that is slower than its peers, a rank that is silent, and slow data loading,
// from the metrics of the ranks of one attempt.
//
// Ranks that train together wait for each other, so all of them need the same time for a step. The
// metric `data_seconds` is the time of a step in which a rank waits for its next batch,
// `compute_seconds` the time in which it waits neither for that nor for other ranks. Their sum is
// the rank's own time: a rank whose data comes late holds up the others, too.
//
// A straggler: a step is judged when all ranks have reported it, so that the order in which nodes
// deliver has no effect. It is judged without ranks that do not log it: the agents of all nodes
// have delivered readings of 30 s later. A rank's ratio in a step is its own time over the median
// of the ranks. The evidence is a cumulative sum (CUSUM; Page, Biometrika 41, 1954): each step adds
// log(ratio / 1.42), at most 0.4 and at least -0.4, and the sum is kept from 0 to 3.6. At 3.6 the
// rank is a straggler, at 0 it is none any more. So a rank at half speed is found after 11 steps,
// or a few more if the others pause meanwhile, and a rank that pauses for 5 steps in a row, however
// long, never is. Cost: a logarithm a rank and step, and the median of the ranks.
//
// A silent rank has logged as many steps as the others, and then none while the others logged 20
// more, for at least 30 s, in which its agent has delivered other readings. A rank whose agent is
// away is not silent: its reports come later.
//
// Data loading: the mean over the ranks' last steps of data_seconds is above that of
// compute_seconds, by such a sum of log(data / (1.1 compute)).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/finding/open_findings.h"

namespace lockstep::finding {

// Where a rank runs.
struct RankPlace {
  int rank = 0;
  int node = 0;
  std::optional<int> device{};  // of the node's host
};

class RankFaults {
 public:
  // The size of the attempt.
  void set_size(std::size_t ranks, std::size_t nodes) {
    rank_count_ = ranks;
    node_count_ = nodes;
  }
  // A node has delivered a reading of this time, of whatever kind.
  void observe_node(int node, Time time);
  // The metrics that a rank has logged for a step. A repeated report has no effect.
  void observe(const RankPlace& place, std::int64_t step, Time time,
               const std::map<std::string, double>& values, OpenFindings& findings);

 private:
  // Evidence that grows while steps are slow.
  class Evidence {
   public:
    // `ratio`: 1 is the border between slow and not.
    void add(double ratio, Time time, bool was_open);
    bool is_full() const { return sum_ >= kFull; }
    bool is_empty() const { return sum_ <= 0; }
    Time since() const { return since_; }  // the first step of it

   private:
    static constexpr double kFull = 3.6;
    bool has_begun_ = false;
    double sum_ = 0;
    Time since_{};
  };
  struct Rank {
    RankPlace place;
    std::int64_t step = -1;  // the newest that it has logged
    Time time{};
    std::int64_t timed_step = -1;  // the newest with a compute time
    std::int64_t reports = 0;
    double ratio = 1;  // a moving mean of its time over the median
    Evidence slow;
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
  bool is_due(const Step& step);

  std::map<int, Rank> ranks_;
  std::map<int, Time> nodes_;           // the newest reading of each
  std::map<std::int64_t, Step> steps_;  // that are not judged yet
  std::size_t waiting_times_ = 0;       // of these steps
  std::int64_t judged_ = -1;            // the newest judged step
  std::int64_t newest_step_ = -1;
  std::size_t rank_count_ = 0, node_count_ = 0;
  Time newest_{};        // of all readings
  Time all_until_{};     // all nodes have delivered readings of this time
  Time all_until_at_{};  // `newest_` when that was found out
  std::int64_t silence_judged_ = 0;
  Evidence slow_data_;
};

}  // namespace lockstep::finding
