// One rank of bench/comm/soak.py, which writes commands to its standard input and reads its results
// from its standard output, a line each:
//
//   serve                           runs the rendezvous;               prints "port PORT"
//   join PORT NAME RANK SIZE HOST   meets the others as group NAME;     says "joined"
//     then calls collectives, checking every result, until one fails:   says "failed MESSAGE"
//   leave                           ends the group, when it has failed; says "left"
//
// A wrong result ends the process with status 3. All ranks draw the same calls from the group's
// name.
#include <csignal>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <unistd.h>

#include "base/random.h"
#include "comm/collective/communicator.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/server.h"

namespace lockstep::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kElementsMax = 200'000;

void print_to_stderr(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

[[noreturn]] void exit_with_error(int status, const std::string& reason) {
  std::fprintf(stderr, "%s\n", reason.c_str());
  ::_exit(status);
}

// The input of rank `rank` at an index of a call; sums of it are exact.
std::int64_t contribution(int rank, std::uint64_t call, std::size_t index) {
  return static_cast<std::int64_t>(call * 31 + index * 7 + static_cast<std::size_t>(rank) * 1009);
}

// Numbers, lent or the process's own.
class NumberBuffer {
 public:
  NumberBuffer(comm::Communicator& group, std::size_t count, bool lent) : count_(count) {
    if (lent)
      allocated_ =
          group.allocate(Bytes(static_cast<std::int64_t>(count * sizeof(std::int64_t)))).value();
    else
      own_.resize(count);
  }
  std::span<std::int64_t> all() {
    if (!allocated_.data()) return own_;
    return {reinterpret_cast<std::int64_t*>(allocated_.data()), count_};
  }
  std::span<std::byte> bytes() { return std::as_writable_bytes(all()); }

 private:
  std::size_t count_;
  comm::Buffer allocated_;
  std::vector<std::int64_t> own_;
};

class Member {
 public:
  Member(comm::Communicator& group, std::uint64_t seed) : group_(group), random_(seed) {}

  // Until a call fails, which it does when a rank is killed.
  Error run_until_failure() {
    while (true) {
      ++calls_;
      if (const auto done = next(); !done) return done.error();
    }
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(group_.size()); }

  Result<void> next() {
    const auto kind = random_.below(4);
    const auto elements = static_cast<std::size_t>(
        random_.below(2) == 0 ? random_.below(600) : random_.below(kElementsMax));
    const bool lent = random_.below(2) == 0;
    const auto mode =
        random_.below(2) == 0 ? comm::CallMode::blocking : comm::CallMode::nonblocking;
    const int root = static_cast<int>(random_.below(ranks()));
    switch (kind) {
      case 0:
        return all_reduce(elements, lent, mode);
      case 1:
        return all_gather(elements / ranks(), lent, mode);
      case 2:
        return broadcast(elements, lent, mode, root);
      default:
        return reduce_scatter(elements / ranks(), lent, mode);
    }
  }

  std::int64_t sum(std::size_t index) const {
    std::int64_t sum = 0;
    for (int rank = 0; rank < group_.size(); ++rank) sum += contribution(rank, calls_, index);
    return sum;
  }
  void fill(std::span<std::int64_t> numbers, std::size_t first = 0) const {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = contribution(group_.rank(), calls_, first + i);
  }
  void expect(std::span<const std::int64_t> numbers,
              const std::function<std::int64_t(std::size_t)>& expected) const {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] != expected(i))
        exit_with_error(
            3, format("call {}: element {} is {}, not {}", calls_, i, numbers[i], expected(i)));
  }

  Result<void> all_reduce(std::size_t count, bool lent, comm::CallMode mode) {
    NumberBuffer numbers(group_, count, lent);
    fill(numbers.all());
    TRY(group_.all_reduce(numbers.bytes(), DataType::int64, ReduceOp::sum, mode).wait());
    expect(numbers.all(), [&](std::size_t i) { return sum(i); });
    return {};
  }
  Result<void> all_gather(std::size_t block, bool lent, comm::CallMode mode) {
    NumberBuffer input(group_, block, lent), output(group_, block * ranks(), lent);
    fill(input.all());
    TRY(group_.all_gather(input.bytes(), output.bytes(), mode).wait());
    expect(output.all(), [&](std::size_t i) {
      return contribution(static_cast<int>(i / block), calls_, i % block);
    });
    return {};
  }
  Result<void> broadcast(std::size_t count, bool lent, comm::CallMode mode, int root) {
    NumberBuffer numbers(group_, count, lent);
    if (group_.rank() == root) fill(numbers.all());
    TRY(group_.broadcast(numbers.bytes(), root, mode).wait());
    expect(numbers.all(), [&](std::size_t i) { return contribution(root, calls_, i); });
    return {};
  }
  Result<void> reduce_scatter(std::size_t block, bool lent, comm::CallMode mode) {
    NumberBuffer input(group_, block * ranks(), lent), output(group_, block, lent);
    fill(input.all());
    TRY(group_.reduce_scatter(input.bytes(), output.bytes(), DataType::int64, ReduceOp::sum, mode)
            .wait());
    const auto first = static_cast<std::size_t>(group_.rank()) * block;
    expect(output.all(), [&](std::size_t i) { return sum(first + i); });
    return {};
  }

  comm::Communicator& group_;
  Random random_;
  std::uint64_t calls_ = 0;
};

class Process {
 public:
  explicit Process(net::Secret secret) : secret_(std::move(secret)) {}

  void execute(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "serve") return serve();
    if (verb == "join") return join(words);
    if (verb == "leave") return leave();
    exit_with_error(2, "what is '" + line + "'?");
  }

 private:
  void serve() {
    server_ = comm::RendezvousServer::start("127.0.0.1", 0, secret_).value();
    print_to_stderr(format("port {}", server_->port()));
  }

  void join(std::istringstream& words) {
    int port = 0;
    std::string name, host;
    comm::CommunicatorOptions options{.secret = secret_, .timeout = 30s};
    words >> port >> name >> options.rank >> options.size >> host;
    options.host_id = host;
    options.group = name;
    auto rendezvous = comm::RendezvousClient::connect("127.0.0.1", static_cast<std::uint16_t>(port),
                                                      secret_, Deadline::after(10s));
    if (!rendezvous) return print_to_stderr("failed " + rendezvous.error().message);
    auto group = comm::Communicator::create(options, **rendezvous);
    if (!group) return print_to_stderr("failed " + group.error().message);
    group_ = std::move(*group);
    print_to_stderr("joined");
    Member member(*group_, std::hash<std::string>()(name));
    print_to_stderr("failed " + member.run_until_failure().message);
  }

  void leave() {
    group_.reset();
    print_to_stderr("left");
  }

  const net::Secret secret_;
  std::unique_ptr<comm::RendezvousServer> server_;
  std::unique_ptr<comm::Communicator> group_;
};

}  // namespace
}  // namespace lockstep::bench

int main() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string line;
  std::getline(std::cin, line);  // the secret, which no command line shows
  auto secret = lockstep::net::Secret::from_hex(line);
  if (!secret) return 2;
  lockstep::bench::Process process(*std::move(secret));
  while (std::getline(std::cin, line)) process.execute(line);
}
