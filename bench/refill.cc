// What bench/refill.py starts: a meeting place, or a rank of a training of which one holds nothing
// and gets its state from the others, so many times.
//
//   bench_refill serve ADDRESS                     holds the meeting place;  says "port PORT"
//   bench_refill rank POLICY MIB ROUNDS            MIB of parameters
//
// Both find their environment as the agent sets it, above all LOCKSTEP_SECRET_FILE: everybody sees
// command lines. The mesh's rank 0 says of each round "filled BYTES SECONDS": what the newcomer
// got, and how long until all ranks knew of it.
#include "train/recovery/refill.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/nn/module.h>

#include "base/files.h"
#include "base/format.h"
#include "comm/rendezvous/server.h"
#include "comm/torch/connect.h"
#include "net/crypto.h"
#include "train/optimizer.h"
#include "train/sampler.h"

namespace lockstep {
namespace {

constexpr int kBlocks = 8;

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

class Block : public torch::nn::Module {
 public:
  explicit Block(std::int64_t elements) {
    register_parameter("weight", at::full({elements}, 1.0, at::kFloat));
  }
};

class Net : public torch::nn::Module {
 public:
  explicit Net(std::int64_t elements) {
    for (int i = 0; i < kBlocks; ++i)
      blocks.push_back(
          register_module(format("block{}", i), std::make_shared<Block>(elements / kBlocks)).get());
  }
  std::vector<torch::nn::Module*> blocks;
};

// Everything that a newcomer gets.
std::vector<at::Tensor> state_of(const ShardedModel& model, Optimizer& optimizer) {
  std::vector<at::Tensor> state;
  for (const auto& unit : model.units()) state.push_back(unit.master());
  const auto moments = optimizer.flat_state().value();
  for (const auto& [name, tensor] : moments) state.push_back(tensor);
  return state;
}

// The last replica's rank of the first shard comes in place of another.
RecoveryPlan plan_of(const Mesh& mesh) {
  RecoveryPlan plan;
  plan.shards = mesh.shard().size();
  plan.seats.resize(static_cast<std::size_t>(mesh.world_size()));
  std::iota(plan.seats.begin(), plan.seats.end(), 0);
  plan.newcomers = {mesh.world_size() - plan.shards};
  return plan;
}

Result<void> be_refilled(const std::string& policy, std::int64_t bytes, int rounds) {
  const at::NoGradGuard no_grad;
  auto mesh = TRY(Mesh::replicas(TRY(connect_from_environment())));
  Net net(bytes / static_cast<std::int64_t>(sizeof(float)));
  const auto parsed = TRY(parse_policy(policy, mesh.world_size()));
  const auto model = TRY(shard(net, std::move(mesh), parsed, net.blocks));
  const auto optimizer = TRY(Optimizer::create(*model, {}));
  auto sampler = TRY(Sampler::create(1000, 1, 1));
  const auto state = state_of(*model, *optimizer);
  const auto plan = plan_of(model->mesh());
  const bool newcomer = plan.newcomers.front() == model->mesh().rank();
  for (int round = 1; round <= rounds; ++round) {
    for (const auto& tensor : state) tensor.fill_(newcomer ? 0 : round);
    TRY(model->mesh().world().reduce(0, Reduction::sum, "all begin"));
    const auto begin = std::chrono::steady_clock::now();
    TRY(refill(plan, {*model, *optimizer, sampler}));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::int64_t got = 0;
    for (const auto& tensor : state) {
      got += static_cast<std::int64_t>(tensor.nbytes());
      if (!tensor.eq(round).all().item<bool>())
        return Error{Code::internal, format("rank {} has not got all", model->mesh().rank())};
    }
    if (model->mesh().rank() == 0) say(format("filled {} {:.6f}", got, took.count()));
  }
  return {};
}

int serve(const std::string& address) {
  const auto secret = Secret::from_hex(read_file(std::getenv("LOCKSTEP_SECRET_FILE")).value());
  auto server = RendezvousServer::start(address, 0, secret.value()).value();
  say(format("port {}", server->port()));
  for (std::string line; std::getline(std::cin, line);) {
  }
  return 0;
}

int rank(const std::string& policy, std::int64_t mib, int rounds) {
  at::set_num_threads(1);
  const auto done = be_refilled(policy, mib << 20, rounds);
  if (!done) std::fprintf(stderr, "bench_refill: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "serve") == 0) return lockstep::serve(argv[2]);
  if (argc == 5 && std::strcmp(argv[1], "rank") == 0)
    return lockstep::rank(argv[2], std::atol(argv[3]), std::atoi(argv[4]));
  std::fputs("bench/refill.py starts this program\n", stderr);
  return 2;
}
