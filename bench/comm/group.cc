// Many ranks on this machine: `bench_group RANKS`. They are forked, meet, call small all-reduces,
// and then one of them is killed. Prints a line:
//
//   met SECONDS reduced MICROSECONDS descriptors MOST told MILLISECONDS errors DIFFERENT
//
// met: from the start of all until the last one has met. reduced: of one all-reduce of 8 bytes.
// told: from the kill until the last of the others has an error. errors: how many sentences differ.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <dirent.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"
#include "comm/collective/communicator.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/server.h"
#include "net/crypto.h"

namespace lockstep::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kBound = 120s;
constexpr int kCalls = 20;

enum class Stage { met, reduced, failed };

// Written at once: smaller than PIPE_BUF.
struct Report {
  Stage stage;
  int rank;
  double microseconds;      // reduced: of a call
  std::size_t descriptors;  // reduced
  std::size_t error;        // failed: its hash
};

int open_descriptors() {
  int count = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  while (folder && ::readdir(folder.get()) != nullptr) ++count;
  return count - 3;  // ".", ".." and the folder's own
}

[[noreturn]] void exit_with_error(const std::string& reason) {
  std::fprintf(stderr, "%s\n", reason.c_str());
  ::_exit(1);
}

template <class Value>
Value check(Result<Value> result) {
  if (!result) exit_with_error(result.error().message);
  return std::move(*result);
}

struct Pipe {
  Pipe() { LS_CHECK(::pipe(ends) == 0); }
  int ends[2];
};

class Rank {
 public:
  Rank(int rank, int ranks, const net::Secret& secret, int reports)
      : rank_(rank), ranks_(ranks), secret_(secret), reports_(reports) {}

  [[noreturn]] void live(int start) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::uint16_t port = 0;
    if (::read(start, &port, sizeof port) != sizeof port) ::_exit(1);
    auto client =
        check(comm::RendezvousClient::connect("127.0.0.1", port, secret_, Deadline::after(kBound)));
    const auto group = check(comm::Communicator::create({.rank = rank_,
                                                         .size = ranks_,
                                                         .host_id = "a",
                                                         .secret = secret_,
                                                         .timeout = kBound,
                                                         .network = {.address = "127.0.0.1"}},
                                                        *client));
    report({Stage::met, rank_, 0, 0, 0});
    reduce(*group);
    if (rank_ == ranks_ / 2) ::pause();  // it is killed
    (void)group->barrier().wait();
    const auto later = group->barrier().wait();
    report({Stage::failed, rank_, 0, 0, std::hash<std::string>()(later.error().message)});
    // The end of this process would take the processors from ranks that do not know yet.
    for (;;) ::pause();
  }

 private:
  void reduce(comm::Communicator& group) {
    all_reduce(group);  // these two make the connections
    if (const auto done = group.barrier().wait(); !done) exit_with_error(done.error().message);
    const auto begun = Clock::now();
    for (int i = 0; i < kCalls; ++i) all_reduce(group);
    const std::chrono::duration<double, std::micro> time = Clock::now() - begun;
    report({Stage::reduced, rank_, time.count() / kCalls,
            static_cast<std::size_t>(open_descriptors()), 0});
  }

  void all_reduce(comm::Communicator& group) const {
    std::int64_t sum = rank_;
    const auto done = group
                          .all_reduce(std::as_writable_bytes(std::span(&sum, 1)), DataType::int64,
                                      ReduceOp::sum, comm::CallMode::blocking)
                          .wait();
    if (!done) exit_with_error(done.error().message);
    if (sum != std::int64_t{ranks_} * (ranks_ - 1) / 2) exit_with_error("the sum is wrong");
  }

  void report(const Report& one) const {
    if (::write(reports_, &one, sizeof one) != sizeof one) ::_exit(1);
  }

  const int rank_, ranks_;
  const net::Secret secret_;
  const int reports_;
};

class Group {
 public:
  explicit Group(int ranks) : ranks_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t pid = ::fork();
      if (pid < 0) exit_with_error(format("forking rank {}: see ulimit -u", rank));
      if (pid == 0) Rank(rank, ranks, secret_, reports_.ends[1]).live(start_.ends[0]);
      pids_.push_back(pid);
    }
    server_ = check(comm::RendezvousServer::start("127.0.0.1", 0, secret_));
  }
  ~Group() {
    for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
    for (const pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
  }

  void run() {
    const auto begun = Clock::now();
    const auto port = server_->port();
    for (int rank = 0; rank < ranks_; ++rank)
      LS_CHECK(::write(start_.ends[1], &port, sizeof port) == sizeof port);
    const std::chrono::duration<double> met = wait_for(Stage::met, ranks_) - begun;
    wait_for(Stage::reduced, ranks_);
    double reduced = 0;
    std::size_t descriptors = 0;
    for (const auto& one : got_) {
      reduced = std::max(reduced, one.microseconds);
      descriptors = std::max(descriptors, one.descriptors);
    }
    const auto killed = Clock::now();
    ::kill(pids_[static_cast<std::size_t>(ranks_ / 2)], SIGKILL);
    const std::chrono::duration<double, std::milli> told =
        wait_for(Stage::failed, ranks_ - 1) - killed;
    std::set<std::size_t> errors;
    for (const auto& one : got_) errors.insert(one.error);
    std::printf("met %.2f reduced %.0f descriptors %zu told %.0f errors %zu\n", met.count(),
                reduced, descriptors, told.count(), errors.size());
  }

 private:
  // The time of the last of so many reports, which got_ then has.
  Clock::time_point wait_for(Stage stage, int count) {
    got_ = std::exchange(reports_of_[stage], {});
    while (static_cast<int>(got_.size()) < count) {
      const int missing = count - static_cast<int>(got_.size());
      const auto ready = net::wait_ready(reports_.ends[0], POLLIN, Deadline::after(kBound),
                                         format("waiting for {} more ranks", missing));
      if (!ready) exit_with_error(ready.error().message);
      Report one{};
      LS_CHECK(::read(reports_.ends[0], &one, sizeof one) == sizeof one);
      (one.stage == stage ? got_ : reports_of_[one.stage]).push_back(one);
    }
    return Clock::now();
  }

  const int ranks_;
  const net::Secret secret_ = net::Secret::random();
  const Pipe start_, reports_;
  std::vector<pid_t> pids_;
  std::unique_ptr<comm::RendezvousServer> server_;
  std::vector<Report> got_;
  std::map<Stage, std::vector<Report>> reports_of_;  // of stages that are not awaited yet
};

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  if (argc != 2 || std::atoi(argv[1]) < 2) {
    std::fprintf(stderr, "usage: bench_group RANKS, at least 2\n");
    return 2;
  }
  lockstep::bench::Group(std::atoi(argv[1])).run();
}
