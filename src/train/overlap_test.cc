// The cost of communication in a step beyond its computing, in time and memory: one rank, in
// virtual time.
//
// The group is a fake. Its transfers move no data and take as long as their bytes take on a wire of
// their group, one after the other; blocks compute by advancing the time. So a step has an exact
// length, and its excess over the computing is what the engine did not hide.
#include <algorithm>
#include <map>
#include <memory>

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/sin.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/nn/module.h>

#include "base/format.h"
#include "train/choose_policy.h"
#include "train/optimizer/optimizer.h"
#include "train/shard.h"

namespace lockstep::train::overlap_test {
namespace {

constexpr int kRanks = 4;

// Seconds are virtual.
struct Timeline {
  double now = 0;
  double computed = 0;
  std::map<std::string, double> speed;    // of a group's wire, in bytes a second
  std::map<std::string, double> free;     // when it becomes free
  std::map<std::string, double> carried;  // how long it was in use

  void compute(double seconds) {
    now += seconds;
    computed += seconds;
  }
  double transfer(const std::string& group, double bytes) {
    const double seconds = speed.count(group) != 0 ? bytes / speed.at(group) : 0;
    carried[group] += seconds;
    return free[group] = std::max(now, free[group]) + seconds;
  }
  double exposed() const { return now - computed; }
};

class VirtualWork : public c10d::Work {
 public:
  VirtualWork(Timeline& time, double end) : time_(time), end_(end) {}
  bool isCompleted() override { return time_.now >= end_; }
  bool wait(std::chrono::milliseconds) override {
    time_.now = std::max(time_.now, end_);
    return true;
  }

 private:
  Timeline& time_;
  const double end_;
};

// Rank 0 of a group in which all ranks have the same.
class VirtualBackend : public c10d::Backend {
 public:
  VirtualBackend(Timeline& time, int size, std::string group)
      : Backend(0, size), time_(time), group_(std::move(group)) {}

  const std::string getBackendName() const override { return "custom"; }
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return c10::make_intrusive<Options>("virtual");
  }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>&,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override {
    const auto name = options->group_name.substr(0, options->group_name.find(' '));
    return c10::make_intrusive<VirtualBackend>(time_, static_cast<int>(ranks.size()), name);
  }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions&) override {
    return work(2 * tensors.front().nbytes());
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions&) override {
    return work(tensors.front().nbytes());
  }
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions&) override {
    for (int rank = 0; rank < getSize(); ++rank) output.view({getSize(), -1})[rank].copy_(input);
    return work(output.nbytes());
  }
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions&) override {
    output.copy_(input.view({getSize(), -1})[0]);
    return work(input.nbytes());
  }

 private:
  c10::intrusive_ptr<c10d::Work> work(std::size_t bytes) {
    const double sent = static_cast<double>(bytes) * (getSize() - 1) / getSize();
    return c10::make_intrusive<VirtualWork>(time_, time_.transfer(group_, sent));
  }

  Timeline& time_;
  const std::string group_;
};

// The time that passes in forward and, twice as much, in backward.
struct Compute : torch::autograd::Function<Compute> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            Timeline* time, double seconds) {
    context->saved_data["time"] = reinterpret_cast<std::int64_t>(time);
    context->saved_data["seconds"] = seconds;
    time->compute(seconds);
    return x.view_as(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto* time = reinterpret_cast<Timeline*>(context->saved_data["time"].toInt());
    time->compute(2 * context->saved_data["seconds"].toDouble());
    return {gradients[0], at::Tensor(), at::Tensor()};
  }
};

constexpr int kBlocks = 8;

double block_bytes(int width) { return 2.0 * width * width * sizeof(float); }

constexpr int kWidth = 64;
const double kBlockBytes = block_bytes(kWidth);

// Two layers, each with half of the block's computing.
class Block : public torch::nn::Module {
 public:
  Block(Timeline& time, double seconds, int width) : time_(time), seconds_(seconds) {
    const auto weight = [&](const char* name) {
      return register_parameter(name, at::sin(at::arange(width * width)).view({width, width}) / 8);
    };
    first_ = weight("first");
    second_ = weight("second");
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto y = Compute::apply(at::linear(x, first_), &time_, seconds_ / 2);
    return Compute::apply(at::linear(y, second_), &time_, seconds_ / 2);
  }

 private:
  Timeline& time_;
  double seconds_;
  at::Tensor first_, second_;
};

class Net : public torch::nn::Module {
 public:
  Net(Timeline& time, double seconds, int width) : width_(width) {
    for (int i = 0; i < kBlocks; ++i)
      blocks_.push_back(
          register_module(format("block{}", i), std::make_shared<Block>(time, seconds, width)));
  }
  std::vector<torch::nn::Module*> blocks() const {
    std::vector<torch::nn::Module*> all;
    for (const auto& block : blocks_) all.push_back(block.get());
    return all;
  }
  at::Tensor loss(ShardedModel& model) const {
    auto x = at::sin(at::arange(static_cast<float>(width_))).view({1, width_});
    for (const auto& block : blocks_) x = model(*block, x);
    return x.square().mean();
  }

 private:
  int width_;
  std::vector<std::shared_ptr<Block>> blocks_;
};

struct Training {
  // seconds: of a block's forward.
  Training(Timeline& time, const std::string& name, double seconds, const Sgd& method = {},
           int width = kWidth)
      : net(time, seconds, width) {
    at::set_num_threads(1);
    auto group = c10::make_intrusive<c10d::ProcessGroup>(0, kRanks);
    group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                      c10::make_intrusive<VirtualBackend>(time, kRanks, "world"));
    group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
    auto policy = parse_policy(name, kRanks).value();
    policy.bucket = policy.first_bucket = Bytes(static_cast<std::int64_t>(block_bytes(width)));
    model = shard(net, Mesh::replicas(group).value(), policy, net.blocks()).value();
    optimizer = Optimizer::create(*model, {.method = method, .learning_rate = 1e-3}).value();
  }
  void step(int micro_steps) {
    for (int i = 1; i <= micro_steps; ++i)
      model->backward(net.loss(*model), i == micro_steps ? Sync::now : Sync::later).value();
    model->finish_gradients().value();
    EXPECT_TRUE(optimizer->step().value().taken);
  }

  Net net;
  std::unique_ptr<ShardedModel> model;
  std::unique_ptr<Optimizer> optimizer;
};

// The time of a step beyond its computing, when all steps before it were equal.
double exposed(Timeline& time, const std::string& policy, double seconds, int micro_steps = 1) {
  Training training(time, policy, seconds);
  training.step(micro_steps);
  training.step(micro_steps);
  const double before = time.exposed();
  time.carried.clear();
  training.step(micro_steps);
  return time.exposed() - before;
}

// The units whose share of each wire's time in a step may be exposed, at most.
constexpr double kUnits = 1.25 / kBlocks;

TEST(Overlap, OfTheReductionsOfDdpOnlyTheLastUnitsIsSeen) {
  Timeline time;
  time.speed["world"] = kBlockBytes * 1.5;  // an all-reduce of a block: one second
  const double seen = exposed(time, "ddp", 0.5);
  EXPECT_NEAR(time.carried["world"], kBlocks, 0.01);
  EXPECT_GT(seen, 0.99);
  EXPECT_LE(seen, kUnits * time.carried["world"]);
}

TEST(Overlap, OfHop2OnlyTheLastUnitsIsSeenHoweverManyMicroSteps) {
  for (int micro_steps : {1, 4}) {
    Timeline time;
    time.speed["shards"] = kBlockBytes / 2 * 20;  // a gather of a block: a twentieth of a second
    time.speed["replicas"] = kBlockBytes / 2;     // an all-reduce of its half: one second
    const double seen = exposed(time, "mics:2", 1, micro_steps);
    EXPECT_NEAR(time.carried["replicas"], kBlocks, 0.01);
    const double inside = 3.0 * 0.05 * micro_steps;  // first gathers, and the last hop 1
    EXPECT_LE(seen - inside, kUnits * time.carried["replicas"]) << micro_steps;
  }
}

TEST(Overlap, AWireThatIsTheLimitRestsUntilTheFirstUnitIsThereAndNoLonger) {
  Timeline time;
  time.speed["shards"] = kBlockBytes / 2 * 20;
  time.speed["replicas"] = kBlockBytes / 20;  // an all-reduce of a block's half: ten seconds
  const double seen = exposed(time, "mics:2", 1);
  const double wire = time.carried["replicas"];
  const double behind = 2.0 * (kBlocks - 1);          // backward of all units but the first
  EXPECT_NEAR(seen, wire - behind + 3 * 0.05, 0.01);  // the first gathers, and hop 1
}

TEST(Overlap, GathersOfAFullyDividedModelAreFetchedAhead) {
  Timeline time;
  time.speed["world"] = kBlockBytes * 0.75;  // a gather, or a reduce-scatter, of a block: a second
  const double seen = exposed(time, "zero3", 2);
  EXPECT_NEAR(time.carried["world"], 3 * kBlocks, 0.01);
  EXPECT_LE(seen, kUnits * time.carried["world"]);
}

TEST(Overlap, WhatTheOptimizerStepsIsGatheredBehindTheNextForward) {
  for (const auto* policy : {"zero1", "zero2"}) {
    Timeline time;
    time.speed["world"] = kBlockBytes * 0.75;
    const double seen = exposed(time, policy, 2);
    EXPECT_NEAR(time.carried["world"], 2 * kBlocks, 0.01) << policy;
    EXPECT_LE(seen, kUnits * time.carried["world"]) << policy;
  }
}

TEST(Overlap, WhoReadsParametersAsUsualFindsThemThere) {
  Timeline time;
  time.speed["world"] = kBlockBytes * 0.75;
  Training training(time, "zero1", 0);
  training.model->backward(training.net.loss(*training.model), Sync::now).value();
  training.model->finish_gradients().value();
  EXPECT_TRUE(training.optimizer->step().value().taken);
  const double stepped = time.now;
  training.model->wait_parameter_sync().value();
  EXPECT_NEAR(time.now - stepped, kBlocks, 0.01) << "all gathers were under way";
  // Blocks that did not run through the model since the last step may run outside of it.
  training.model->sync_parameters().value();
  const double spread = time.now;
  training.model->begin_parameter_sync().value();
  EXPECT_NEAR(time.now - spread, kBlocks, 0.01) << "waited for at once";
}

// Counts what torch allocates for tensors on the CPU, on this thread.
class Meter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t,
                         c10::Device) override {
    now_ += bytes;
    most_ = std::max(most_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  void begin() { most_ = now_; }
  std::int64_t now() const { return now_; }
  std::int64_t most() const { return most_; }

 private:
  std::int64_t now_ = 0;
  std::int64_t most_ = 0;
};

// Blocks of 2 MiB; compared with them activations of one row are negligible.
TEST(Memory, IsTheFormulasAndOneUnitMoreAtMost) {
  for (const auto* policy : {"ddp", "zero1", "zero2", "zero3", "mics:2", "mics:2+opt", "zero3+keep",
                             "zero3+recompute"}) {
    const auto meter = std::make_shared<Meter>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter);
    Timeline time;
    constexpr int width = 512;
    Training training(time, policy, 0, {.momentum = 0.9}, width);
    for (int step = 0; step < 2; ++step) training.step(2);
    meter->begin();
    training.step(2);
    const auto& model = *training.model;
    auto need = estimate_memory(model.layout(), model.policy());
    need.optimizer = need.optimizer / 2;  // one moment, not two
    const auto least = need.total() - need.in_flight;
    const Bytes unit(static_cast<std::int64_t>(block_bytes(width)));
    EXPECT_GE(Bytes(meter->now()), least) << policy;
    EXPECT_LE(Bytes(meter->most()), need.total() + unit)
        << policy << ": " << lockstep::text(Bytes(meter->most())) << " of "
        << lockstep::text(need.total() + unit);
  }
}

}  // namespace
}  // namespace lockstep::train::overlap_test
