// The program of bench/train/recover.py: a rendezvous server, or a rank that trains and may die.
//
//   bench_recover serve                        runs the rendezvous;  prints "port PORT"
//   bench_recover train POLICY STEPS [POINT STEP DELAY_US]
//
// Both read their environment as the agent sets it, above all LOCKSTEP_SECRET_FILE: command lines
// are visible to all users. A rank prints, each with seconds of the monotonic clock:
//   step N LOSS T   (the mesh's rank 0) a step is done         broken T   it has an error
//   dying T         it kills itself, at POINT of step STEP     recovered STEP T STORY
//   end T           it has come to the end                     leaves T   no replica needs it
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <torch/nn/module.h>

#include "base/format.h"
#include "base/os/files.h"
#include "comm/rendezvous/server.h"
#include "net/crypto.h"
#include "train/checkpoint/checkpointer.h"
#include "train/data/batch.h"
#include "train/optimizer/optimizer.h"
#include "train/recovery/recovery.h"

namespace lockstep::bench {
namespace {

constexpr std::int64_t kWidth = 384;
constexpr int kLayers = 6;
constexpr std::int64_t kBatch = 48;
constexpr std::int64_t kAtOnce = 12;  // samples that a rank computes at once
constexpr std::int64_t kSaveEvery = 3;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void print_to_stderr(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

// When this rank kills itself.
struct PlannedKill {
  std::string point;  // empty: never
  std::int64_t step = -1;
  Duration delay{0};

  void kill_at(const std::string& here, std::int64_t step_now) const {
    if (here != point || step_now != step) return;
    print_to_stderr(format("dying {:.6f}", now()));
    std::raise(SIGKILL);
  }
  // At whatever it does after so long.
  void start_timer(std::int64_t step_now) const {
    if (point != "any" || step_now != step) return;
    std::thread([after = delay] {
      std::this_thread::sleep_for(after);
      print_to_stderr(format("dying {:.6f}", now()));
      std::raise(SIGKILL);
    }).detach();
  }
};

at::Tensor wave(at::IntArrayRef shape, double phase) {
  const auto count = c10::multiply_integers(shape);
  return at::sin(at::arange(count, at::kFloat) * 1.7 + phase).view(shape);
}

class Layer : public torch::nn::Module {
 public:
  explicit Layer(double phase) {
    weight = register_parameter("weight", wave({kWidth, kWidth}, phase) * 0.05);
    bias = register_parameter("bias", wave({kWidth}, phase + 0.1) * 0.05);
  }
  at::Tensor forward(const at::Tensor& x) {
    in_forward();
    auto y = x + at::tanh(at::linear(x, weight, bias));
    if (y.requires_grad()) y.register_hook([this](const at::TensorBase&) { in_backward(); });
    return y;
  }

  at::Tensor weight, bias;
  std::function<void()> in_forward = [] {}, in_backward = [] {};
};

class Net : public torch::nn::Module {
 public:
  Net() {
    for (int i = 0; i < kLayers; ++i)
      layers.push_back(register_module(format("layer{}", i), std::make_shared<Layer>(0.3 + i)));
  }
  std::vector<torch::nn::Module*> blocks() const {
    std::vector<torch::nn::Module*> all;
    for (const auto& layer : layers) all.push_back(layer.get());
    return all;
  }

  std::vector<std::shared_ptr<Layer>> layers;
};

class Rank {
 public:
  Rank(std::string policy, std::int64_t steps, PlannedKill death)
      : policy_(std::move(policy)), steps_(steps), kill_(std::move(death)) {
    auto& layer = *net_.layers[kLayers / 2];
    layer.in_forward = [this] { kill_.kill_at("gather", step_); };
    layer.in_backward = [this] { kill_.kill_at("hop1", step_); };
  }

  Result<void> run() {
    auto options = TRY(train::recovery_options_from_environment());
    const char* folder = std::getenv("LOCKSTEP_CHECKPOINT_DIR");
    folder_ = folder ? folder : "";
    options.checkpoint_folder = folder_;
    recovery_ = TRY(train::Recovery::start(options));
    const bool alone = std::getenv("LOCKSTEP_RENDEZVOUS") == nullptr;
    auto mesh = alone ? train::Mesh::single() : TRY(recovery_->mesh());
    const auto policy = TRY(train::parse_policy(policy_, mesh.world_size()));
    model_ = TRY(train::shard(net_, mesh, policy, net_.blocks(), recovery_->initial_values()));
    optimizer_ = TRY(train::Optimizer::create(*model_, {.learning_rate = 1e-3, .clip_norm = 1.0}));
    if (recovery_->is_replacement())
      step_ = TRY(recovery_->complete_replacement(training())).step;
    else
      TRY(open_checkpoints());
    while (step_ < steps_) {
      const auto done = step();
      if (!done && !TRY(recover(done.error()))) return {};
    }
    if (checkpoints_) TRY(checkpoints_->finish());
    print_to_stderr(format("end {:.6f}", now()));
    return {};
  }

 private:
  train::RecoverableTraining training() {
    return {*model_, *optimizer_, sampler_, [this] { return open_checkpoints(); }};
  }

  Result<void> open_checkpoints() {
    checkpoints_.reset();
    if (folder_.empty()) return {};
    auto group = TRY(recovery_->new_group(std::chrono::minutes(5)));
    const train::Writer writer{
        .run = "demo/1", .attempt = 1, .recoveries = recovery_->generation()};
    checkpoints_ =
        TRY(train::Checkpointer::open({.folder = folder_, .writer = writer}, std::move(group)));
    return {};
  }

  Result<void> step() {
    TRY(recovery_->begin_step(step_, training()));
    auto& mesh = model_->mesh();
    kill_.start_timer(step_);
    double sum = 0;
    const auto parts =
        TRY(train::micro_batches_of({kBatch, kAtOnce}, mesh.rank(), mesh.world_size()));
    for (const auto& part : parts) {
      std::vector<at::Tensor> samples;
      for (const auto sample : sampler_.peek(part.begin, part.end))
        samples.push_back(wave({kWidth}, static_cast<double>(sample)));
      auto x = at::stack(samples);
      for (const auto& layer : net_.layers) x = (*model_)(*layer, x);
      const auto loss = x.square().mean() * part.weight;
      sum += loss.item<double>() / static_cast<double>(parts.size());
      TRY(model_->backward(loss, &part == &parts.back() ? Sync::now : Sync::later));
    }
    kill_.kill_at("hop2", step_);
    TRY(model_->finish_gradients());
    const double loss =
        TRY(mesh.world().all_reduce(sum, ReduceOp::sum, "loss")) / mesh.world_size();
    kill_.kill_at("norm", step_);
    TRY(optimizer_->step());
    kill_.kill_at("optimizer", step_);
    sampler_.advance();
    ++step_;
    if (mesh.rank() == 0) print_to_stderr(format("step {} {:.9g} {:.6f}", step_, loss, now()));
    if (!checkpoints_ || step_ % kSaveEvery != 0) return {};
    TRY(checkpoints_->save(train::state_of(step_, *model_, *optimizer_, sampler_)));
    kill_.kill_at("snapshot", step_ - 1);
    if (kill_.point != "persist") return {};
    std::this_thread::sleep_for(kill_.delay);
    kill_.kill_at("persist", step_ - 1);
    return {};
  }

  Result<bool> recover(const Error& cause) {
    print_to_stderr(format("broken {:.6f}", now()));
    const auto recovered = TRY(recovery_->recover(cause, training()));
    if (recovered.leaves) {
      print_to_stderr(format("leaves {:.6f}", now()));
      return false;
    }
    step_ = recovered.step;
    print_to_stderr(format("recovered {} {:.6f} {}", step_, now(), recovered.description));
    return true;
  }

  const std::string policy_;
  const std::int64_t steps_;
  const PlannedKill kill_;
  std::filesystem::path folder_;
  Net net_;
  train::Sampler sampler_ = train::Sampler::create(100'000, kBatch, 3).value();
  std::unique_ptr<train::Recovery> recovery_;
  std::unique_ptr<train::ShardedModel> model_;
  std::unique_ptr<train::Optimizer> optimizer_;
  std::unique_ptr<train::Checkpointer> checkpoints_;
  std::int64_t step_ = 0;
};

int serve() {
  const auto secret = net::Secret::from_hex(read_file(std::getenv("LOCKSTEP_SECRET_FILE")).value());
  auto server = comm::RendezvousServer::start("127.0.0.1", 0, secret.value()).value();
  print_to_stderr(format("port {}", server->port()));
  for (std::string line; std::getline(std::cin, line);) {
  }
  return 0;
}

int train(int argc, char** argv) {
  at::set_num_threads(1);
  PlannedKill death;
  if (argc > 6) death = {argv[4], std::atol(argv[5]), Duration(std::atol(argv[6]))};
  const auto done = Rank(argv[2], std::atol(argv[3]), death).run();
  if (!done) std::fprintf(stderr, "bench_recover: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "serve") == 0) return lockstep::bench::serve();
  if (argc >= 4 && std::strcmp(argv[1], "train") == 0) return lockstep::bench::train(argc, argv);
  std::fputs("bench/train/recover.py starts this program\n", stderr);
  return 2;
}
