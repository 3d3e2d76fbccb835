// The program of bench/train/refill.py: a rendezvous server, or a rank of a training in which one
// rank has no state and gets it from the others, in each round.
//
//   bench_refill serve ADDRESS                     runs the rendezvous;  prints "port PORT"
//   bench_refill rank POLICY MIB ROUNDS            MIB of parameters
//
// Both read their environment as the agent sets it, above all LOCKSTEP_SECRET_FILE: command lines
// are visible to all users. The mesh's rank 0 prints "filled BYTES SECONDS" for each round: the
// bytes that the replacement got, and the time until all ranks knew of it.
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

#include "base/format.h"
#include "base/os/files.h"
#include "comm/rendezvous/server.h"
#include "comm/torch/connect.h"
#include "net/crypto.h"
#include "train/data/sampler.h"
#include "train/optimizer/optimizer.h"
#include "train/recovery/restore_replacements.h"

namespace lockstep::bench {
namespace {

constexpr int kBlocks = 8;

void print_to_stderr(const std::string& line) {
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

// All tensors that a replacement gets.
std::vector<at::Tensor> state_of(const train::ShardedModel& model, train::Optimizer& optimizer) {
  std::vector<at::Tensor> state;
  for (const auto& unit : model.units()) state.push_back(unit.master());
  const auto moments = optimizer.flat_state().value();
  for (const auto& [name, tensor] : moments) state.push_back(tensor);
  return state;
}

// The last replica's rank of the first shard comes in place of another.
train::RecoveryPlan plan_of(const train::Mesh& mesh) {
  train::RecoveryPlan plan;
  plan.shards = mesh.shard().size();
  plan.slots.resize(static_cast<std::size_t>(mesh.world_size()));
  std::iota(plan.slots.begin(), plan.slots.end(), 0);
  plan.replacements = {mesh.world_size() - plan.shards};
  return plan;
}

Result<void> measure_refills(const std::string& policy, std::int64_t bytes, int rounds) {
  const at::NoGradGuard no_grad;
  auto mesh = TRY(train::Mesh::replicas(TRY(comm::connect_from_environment())));
  Net net(bytes / static_cast<std::int64_t>(sizeof(float)));
  const auto parsed = TRY(train::parse_policy(policy, mesh.world_size()));
  const auto model = TRY(train::shard(net, std::move(mesh), parsed, net.blocks));
  const auto optimizer = TRY(train::Optimizer::create(*model, {}));
  auto sampler = TRY(train::Sampler::create(1000, 1, 1));
  const auto state = state_of(*model, *optimizer);
  const auto plan = plan_of(model->mesh());
  const bool is_replacement = plan.replacements.front() == model->mesh().rank();
  for (int round = 1; round <= rounds; ++round) {
    for (const auto& tensor : state) tensor.fill_(is_replacement ? 0 : round);
    TRY(model->mesh().world().all_reduce(0, ReduceOp::sum, "all begin"));
    const auto begin = std::chrono::steady_clock::now();
    TRY(train::restore_replacements(plan, {*model, *optimizer, sampler}));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::int64_t got = 0;
    for (const auto& tensor : state) {
      got += static_cast<std::int64_t>(tensor.nbytes());
      if (!tensor.eq(round).all().item<bool>())
        return Error{Code::internal, format("rank {} has not got all", model->mesh().rank())};
    }
    if (model->mesh().rank() == 0) print_to_stderr(format("filled {} {:.6f}", got, took.count()));
  }
  return {};
}

int serve(const std::string& address) {
  const auto secret = net::Secret::from_hex(read_file(std::getenv("LOCKSTEP_SECRET_FILE")).value());
  auto server = comm::RendezvousServer::start(address, 0, secret.value()).value();
  print_to_stderr(format("port {}", server->port()));
  for (std::string line; std::getline(std::cin, line);) {
  }
  return 0;
}

int rank(const std::string& policy, std::int64_t mib, int rounds) {
  at::set_num_threads(1);
  const auto done = measure_refills(policy, mib << 20, rounds);
  if (!done) std::fprintf(stderr, "bench_refill: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "serve") == 0) return lockstep::bench::serve(argv[2]);
  if (argc == 5 && std::strcmp(argv[1], "rank") == 0)
    return lockstep::bench::rank(argv[2], std::atol(argv[3]), std::atoi(argv[4]));
  std::fputs("bench/train/refill.py starts this program\n", stderr);
  return 2;
}
