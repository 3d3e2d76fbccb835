// One rank of bench/soak.py, which tells it on standard input what to do and reads what becomes of
// it on standard output, a line each:
//
//   serve                           holds the meeting place;            says "port PORT"
//   join PORT NAME RANK SIZE HOST   meets the others as group NAME;     says "joined"
//     then calls collectives, checking every result, until one fails:   says "failed MESSAGE"
//   leave                           ends the group, when it has failed; says "left"
//
// A wrong result ends the process with status 3. All ranks draw the same calls from the group's
// name.
#include <atomic>
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

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kElementsMost = 200'000;

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

[[noreturn]] void die(int status, const std::string& reason) {
  std::fprintf(stderr, "%s\n", reason.c_str());
  ::_exit(status);
}

// What rank `rank` puts in at a place of a call; sums of it are exact.
std::int64_t share(int rank, std::uint64_t call, std::size_t place) {
  return static_cast<std::int64_t>(call * 31 + place * 7 + static_cast<std::size_t>(rank) * 1009);
}

// Numbers, lent or the process's own.
class Numbers {
 public:
  Numbers(Communicator& group, std::size_t count, bool lent) : count_(count) {
    if (lent)
      lent_ =
          group.allocate(Bytes(static_cast<std::int64_t>(count * sizeof(std::int64_t)))).value();
    else
      own_.resize(count);
  }
  std::span<std::int64_t> all() {
    if (!lent_.data()) return own_;
    return {reinterpret_cast<std::int64_t*>(lent_.data()), count_};
  }
  std::span<std::byte> bytes() { return std::as_writable_bytes(all()); }

 private:
  std::size_t count_;
  Buffer lent_;
  std::vector<std::int64_t> own_;
};

class Member {
 public:
  Member(Communicator& group, std::uint64_t seed) : group_(group), random_(seed) {}

  // Until a call fails, which it does when a rank is killed.
  Error work() {
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
        random_.below(2) == 0 ? random_.below(600) : random_.below(kElementsMost));
    const bool lent = random_.below(2) == 0;
    const auto mode = random_.below(2) == 0 ? CallMode::blocking : CallMode::nonblocking;
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

  std::int64_t sum(std::size_t place) const {
    std::int64_t sum = 0;
    for (int rank = 0; rank < group_.size(); ++rank) sum += share(rank, calls_, place);
    return sum;
  }
  void fill(std::span<std::int64_t> numbers, std::size_t first = 0) const {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = share(group_.rank(), calls_, first + i);
  }
  void expect(std::span<const std::int64_t> numbers,
              const std::function<std::int64_t(std::size_t)>& expected) const {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] != expected(i))
        die(3, format("call {}: element {} is {}, not {}", calls_, i, numbers[i], expected(i)));
  }

  Result<void> all_reduce(std::size_t count, bool lent, CallMode mode) {
    Numbers numbers(group_, count, lent);
    fill(numbers.all());
    TRY(group_.all_reduce(numbers.bytes(), DataType::int64, ReduceOp::sum, mode).wait());
    expect(numbers.all(), [&](std::size_t i) { return sum(i); });
    return {};
  }
  Result<void> all_gather(std::size_t block, bool lent, CallMode mode) {
    Numbers input(group_, block, lent), output(group_, block * ranks(), lent);
    fill(input.all());
    TRY(group_.all_gather(input.bytes(), output.bytes(), mode).wait());
    expect(output.all(),
           [&](std::size_t i) { return share(static_cast<int>(i / block), calls_, i % block); });
    return {};
  }
  Result<void> broadcast(std::size_t count, bool lent, CallMode mode, int root) {
    Numbers numbers(group_, count, lent);
    if (group_.rank() == root) fill(numbers.all());
    TRY(group_.broadcast(numbers.bytes(), root, mode).wait());
    expect(numbers.all(), [&](std::size_t i) { return share(root, calls_, i); });
    return {};
  }
  Result<void> reduce_scatter(std::size_t block, bool lent, CallMode mode) {
    Numbers input(group_, block * ranks(), lent), output(group_, block, lent);
    fill(input.all());
    TRY(group_.reduce_scatter(input.bytes(), output.bytes(), DataType::int64, ReduceOp::sum, mode)
            .wait());
    const auto first = static_cast<std::size_t>(group_.rank()) * block;
    expect(output.all(), [&](std::size_t i) { return sum(first + i); });
    return {};
  }

  Communicator& group_;
  Random random_;
  std::uint64_t calls_ = 0;
};

class Process {
 public:
  explicit Process(Secret secret) : secret_(std::move(secret)) {}

  void obey(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "serve") return serve();
    if (verb == "join") return join(words);
    if (verb == "leave") return leave();
    die(2, "what is '" + line + "'?");
  }

 private:
  void serve() {
    server_ = RendezvousServer::start("127.0.0.1", 0, secret_).value();
    say(format("port {}", server_->port()));
  }

  void join(std::istringstream& words) {
    int port = 0;
    std::string name, host;
    CommunicatorOptions options{.secret = secret_, .timeout = 30s};
    words >> port >> name >> options.rank >> options.size >> host;
    options.host_id = host;
    options.group = name;
    auto place = RendezvousClient::connect("127.0.0.1", static_cast<std::uint16_t>(port), secret_,
                                           Deadline::after(10s));
    if (!place) return say("failed " + place.error().message);
    auto group = Communicator::create(options, **place);
    if (!group) return say("failed " + group.error().message);
    group_ = std::move(*group);
    say("joined");
    Member member(*group_, std::hash<std::string>()(name));
    say("failed " + member.work().message);
  }

  void leave() {
    group_.reset();
    say("left");
  }

  const Secret secret_;
  std::unique_ptr<RendezvousServer> server_;
  std::unique_ptr<Communicator> group_;
};

}  // namespace
}  // namespace lockstep

int main() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string line;
  std::getline(std::cin, line);  // the secret, which no command line shows
  auto secret = lockstep::Secret::from_hex(line);
  if (!secret) return 2;
  lockstep::Process process(*std::move(secret));
  while (std::getline(std::cin, line)) process.obey(line);
}
