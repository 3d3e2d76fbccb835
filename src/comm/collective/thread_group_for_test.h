// Groups of ranks for tests: threads of this process, each with the host id that the test sets.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "comm/collective/communicator.h"
#include "comm/rendezvous/local.h"

namespace lockstep::comm::testing_groups {

struct GroupOptions {
  std::vector<std::string> hosts;  // of each rank
  std::string algorithm = {};      // forced
  Duration timeout = std::chrono::seconds(30);
  std::optional<Costs> costs = {};  // of rank 0; nothing: those of the environment
  int full_mesh_ranks = kFullMeshRanks;
};

inline GroupOptions one_host(int ranks) {
  return {std::vector<std::string>(static_cast<std::size_t>(ranks), "a")};
}
inline GroupOptions a_host_each(int ranks) {
  GroupOptions options;
  for (int rank = 0; rank < ranks; ++rank) options.hosts.push_back("host-" + std::to_string(rank));
  return options;
}
// Interleaved, so that the ring order differs from the rank order.
inline GroupOptions two_hosts(int ranks) {
  GroupOptions options;
  for (int rank = 0; rank < ranks; ++rank) options.hosts.push_back(rank % 2 == 0 ? "a" : "b");
  return options;
}

class ThreadGroup {
 public:
  explicit ThreadGroup(GroupOptions options) : communicators_(options.hosts.size()) {
    const auto secret = net::Secret::random();
    on_all([&](int rank) {
      auto created = Communicator::create({.rank = rank,
                                           .size = size(),
                                           .host_id = options.hosts[static_cast<std::size_t>(rank)],
                                           .secret = secret,
                                           .timeout = options.timeout,
                                           .network = {.address = "127.0.0.1"},
                                           .algorithm = options.algorithm,
                                           .costs = options.costs,
                                           .full_mesh_ranks = options.full_mesh_ranks},
                                          rendezvous_);
      ASSERT_TRUE(created.has_value()) << created.error().message;
      communicators_[static_cast<std::size_t>(rank)] = std::move(*created);
    });
  }
  ~ThreadGroup() {
    on_all([&](int rank) { communicators_[static_cast<std::size_t>(rank)].reset(); });
  }

  int size() const { return static_cast<int>(communicators_.size()); }
  Communicator& operator[](int rank) { return *communicators_[static_cast<std::size_t>(rank)]; }
  void drop(int rank) { communicators_[static_cast<std::size_t>(rank)].reset(); }

  // f(communicator) for each rank, at the same time.
  template <class F>
  void run(F f) {
    on_all([&](int rank) { f((*this)[rank]); });
  }

 private:
  template <class F>
  void on_all(F f) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) threads.emplace_back([&f, rank] { f(rank); });
    for (auto& thread : threads) thread.join();
  }

  LocalRendezvous rendezvous_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

template <class T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

}  // namespace lockstep::comm::testing_groups
