// For tests: an optimizer whose rank is killed when it is told what state it is to get, with the
// state itself on its way.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/shard.h"
#include "train/stepper.h"

namespace lockstep::doomed_for_test {

class Doomed final : public Stepper {
 public:
  explicit Doomed(Stepper& of) : of_(of) {}

  std::int64_t decided() const override { return of_.decided(); }
  bool undecided() const override { return of_.undecided(); }
  double last_norm() const override { return of_.last_norm(); }
  Result<void> catch_up(double norm) override { return of_.catch_up(norm); }
  void set_decided(std::int64_t decided) override { of_.set_decided(decided); }
  std::string_view method() const override { return of_.method(); }
  std::int64_t steps() const override { return of_.steps(); }
  void set_steps(std::int64_t steps) override { of_.set_steps(steps); }
  Result<std::vector<NamedTensor>> flat_state() override { return of_.flat_state(); }
  Result<std::vector<OwnedTensor>> state_like(const std::vector<std::string>& names) override {
    std::raise(SIGKILL);
    return of_.state_like(names);
  }
  Result<void> remake() override { return of_.remake(); }
  void scale_learning_rate(double factor) override { of_.scale_learning_rate(factor); }

 private:
  Stepper& of_;
};

}  // namespace lockstep::doomed_for_test
