// For tests: workers and servers as threads, which meet in one process.
#pragma once

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/format.h"
#include "comm/rendezvous/local.h"
#include "net/crypto.h"
#include "train/group/mesh.h"
#include "train/parameter_server/meeting.h"
#include "train/parameter_server/serve.h"
#include "train/trainings_for_test.h"

namespace lockstep::train::ranks_apart_for_test {

inline constexpr auto kBound = std::chrono::seconds(20);

class RanksApart {
 public:
  explicit RanksApart(int ranks) : ranks_(ranks) {}

  int ranks() const { return ranks_; }
  Mesh mesh(int rank) {
    return Mesh::apart(std::make_shared<Meeting>(rank, ranks_, kBound, [this](bool, Duration) {
      return Result<comm::RunRendezvous>(comm::RunRendezvous{
          std::make_unique<comm::PrefixedRendezvous>(rendezvous_, "test"), secret_});
    }));
  }
  // Runs `body` as each rank, in a thread; the errors, one line for each rank that failed.
  std::string run(const std::function<Result<void>(int rank)>& body) {
    std::vector<std::string> failures(static_cast<std::size_t>(ranks_));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks_; ++rank)
      threads.emplace_back([&, rank] {
        const auto done = body(rank);
        if (!done)
          failures[static_cast<std::size_t>(rank)] =
              format("rank {}: {}\n", rank, done.error().message);
      });
    for (auto& thread : threads) thread.join();
    return std::accumulate(failures.begin(), failures.end(), std::string());
  }

 private:
  const int ranks_;
  comm::LocalRendezvous rendezvous_;
  const net::Secret secret_ = net::Secret::random();
};

// One rank's training of the small model.
struct RankTraining {
  static Result<std::unique_ptr<RankTraining>> start(RanksApart& ranks, int rank,
                                                     const std::string& policy,
                                                     const OptimizerOptions& options) {
    auto training = std::make_unique<RankTraining>();
    auto mesh = ranks.mesh(rank);
    const auto parsed = TRY(parse_policy(policy, mesh.world_size()));
    training->model = TRY(shard(training->net, mesh, parsed, training->net.blocks()));
    training->optimizer = TRY(Optimizer::create(*training->model, options));
    return training;
  }
  bool is_server() const { return model->parameter_server() != nullptr; }
  const Task& task() const { return model->parameter_worker()->task(); }
  // The gradient of this worker's share of the step, and the exchange with the servers.
  Result<void> step() {
    const auto [number, share] = task();
    const auto size = trainings_for_test::kBatch / model->parameter_worker()->shares();
    const auto part = [&](const at::Tensor& all) { return all.narrow(0, share * size, size); };
    const auto phase = static_cast<double>(number);
    const auto x = part(trainings_for_test::wave({trainings_for_test::kBatch, 5}, phase));
    const auto y = part(trainings_for_test::wave({trainings_for_test::kBatch, 3}, phase + 0.5));
    TRY(model->backward(net.loss(*model, x, y), Sync::now));
    TRY(model->finish_gradients());
    TRY(optimizer->step());
    return {};
  }

  trainings_for_test::Net net;
  std::unique_ptr<ShardedModel> model;
  std::unique_ptr<Optimizer> optimizer;
};

}  // namespace lockstep::train::ranks_apart_for_test
