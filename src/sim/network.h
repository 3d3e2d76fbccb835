// Network: the way of agents' words to the daemon and of its answers back, and the daemon's way to
// the hosts. Words may be lost, doubled, late and out of order; hosts may be cut off.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "platform/core/model/command.h"
#include "platform/core/model/event.h"
#include "sim/dice.h"
#include "sim/scene.h"
#include "sim/truth.h"

namespace lockstep::sim {

// Chances in percent, for each word by itself.
struct Weather {
  int lost = 0;  // the word or, as often, its answer
  int doubled = 0;
  int late = 0;
};

enum class Cut { none, words, answers, both };
constexpr auto enum_names(Cut) {
  return names<Cut>({{Cut::none, "none"},
                     {Cut::words, "words"},
                     {Cut::answers, "answers"},
                     {Cut::both, "both ways"}});
}

class Network {
 public:
  struct Daemon {
    std::function<Result<Command>(const NodeReport&)> report;
    // The act comes once the daemon is not busy.
    std::function<void(std::function<void()> act)> when_free;
  };
  using Hear = std::function<void(Result<Command>)>;

  Network(Scene& scene, Truth& truth, std::uint64_t seed, Daemon daemon)
      : scene_(scene), truth_(truth), dice_(seed, "network"), daemon_(std::move(daemon)) {}

  // `hear` is called once, later: with the answer, or with why there is none.
  void call(const std::string& host, const NodeReport& report, Hear hear);

  void set_weather(Weather weather) { weather_ = weather; }
  // While it is set every word arrives and no answer does.
  void set_mute(bool mute) { mute_ = mute; }
  // All words arrive, in their time.
  bool is_well() const;
  // Whether the daemon reaches the host, say to start an agent.
  bool reaches(const std::string& host) const { return cut_of(host) == Cut::none; }
  void cut_off(const std::string& host, Cut cut) { cuts_[host] = cut; }
  void heal(const std::string& host) { cuts_.erase(host); }

 private:
  using CallId = std::int64_t;

  Cut cut_of(const std::string& host) const;
  Duration delay(const NodeReport& report);
  Duration straggle(Duration delay);
  void lose(const NodeReport& report, std::string_view what);
  void deliver(CallId call, const std::string& host, const NodeReport& report);
  void hand_over(CallId call, const std::string& host, const NodeReport& report);
  void answer_later(CallId call, Duration delay, Result<Command> answer);

  Scene& scene_;
  Truth& truth_;
  Dice dice_;
  const Daemon daemon_;
  Weather weather_;
  bool mute_ = false;
  Duration straggler_{};  // on the timeline: until then words are under way that are late
  std::map<std::string, Cut> cuts_;
  CallId calls_ = 0;
  std::map<CallId, Hear> waiting_;  // whoever has heard, or has given up, is gone from here
};

}  // namespace lockstep::sim
