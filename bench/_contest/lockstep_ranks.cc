// Lockstep's ranks in the contest, and the memory traffic that bounds all of them.
//
//   bench_contest RANKS PATH SOCKET     (started once; it forks the ranks)
//
// PATH says whose memory is communicated: zero-copy (Communicator::allocate) or staged (malloc).
// With memory, nobody communicates: each rank reads and writes of its own memory as much as a rank
// must read and write in all for that collective, which is the time that no algorithm can beat.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/spawn.h"
#include "comm/collective/communicator.h"
#include "comm/reduction/reduction.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/server.h"
#include "rank.h"

namespace lockstep::contest {
namespace {

using namespace std::chrono_literals;

// The one way in which the contest waits for a call of ours.
void finish(const Pending& call) {
  if (const auto result = call.wait(); !result) die(result.error().message);
}

class Member : public Contestant {
 public:
  explicit Member(Communicator& communicator) : communicator_(communicator) {}
  int rank() const override { return communicator_.rank(); }
  int ranks() const override { return communicator_.size(); }
  void barrier() override { finish(communicator_.barrier(CallMode::blocking)); }

 protected:
  Communicator& communicator_;
};

// Plain memory.
class Staged : public Member {
 public:
  using Member::Member;
  std::span<float> allocate(std::size_t floats) override {
    memory_ = plain_memory(floats);
    return {memory_.get(), floats};
  }
  void all_reduce(std::span<float> buffer) override {
    finish(communicator_.all_reduce(std::as_writable_bytes(buffer), DataType::float32,
                                    ReduceOp::sum, CallMode::blocking));
  }
  void reduce_scatter(std::span<float> input, std::span<float> output) override {
    finish(communicator_.reduce_scatter(std::as_bytes(input), std::as_writable_bytes(output),
                                        DataType::float32, ReduceOp::sum, CallMode::blocking));
  }
  void all_gather(std::span<float> output) override {
    const std::size_t block = output.size() / static_cast<std::size_t>(ranks());
    const auto own = output.subspan(static_cast<std::size_t>(rank()) * block, block);
    finish(communicator_.all_gather(std::as_bytes(own), std::as_writable_bytes(output),
                                    CallMode::blocking));
  }

 private:
  PlainMemory memory_;
};

class ZeroCopy : public Staged {
 public:
  using Staged::Staged;
  std::span<float> allocate(std::size_t floats) override {
    const auto size = Bytes(static_cast<std::int64_t>(floats * sizeof(float)));
    auto allocated = communicator_.allocate(size);
    if (!allocated) die(allocated.error().message);
    memory_ = std::move(*allocated);
    return {reinterpret_cast<float*>(memory_.data()), floats};
  }

 private:
  Buffer memory_;
};

// Every input is read once by somebody and every result written once: here each rank does its share
// of that with the kernel of our reductions, as n blocks of memory that nobody else touches.
class Memory final : public ZeroCopy {
 public:
  using ZeroCopy::ZeroCopy;
  // n blocks read and n written: a slice of everybody's buffer, and the sum into the same places.
  void all_reduce(std::span<float> buffer) override {
    const auto blocks = blocks_of(buffer);
    move(blocks, {blocks.begin(), blocks.end()}, buffer.size());
  }
  // n blocks read, one written.
  void reduce_scatter(std::span<float> input, std::span<float> output) override {
    const auto blocks = blocks_of(input);
    move({as_bytes(output)}, {blocks.begin(), blocks.end()}, input.size());
  }
  // One block read, n - 1 written.
  void all_gather(std::span<float> output) override {
    auto blocks = blocks_of(output);
    const std::byte* const source = blocks.back();
    blocks.pop_back();
    if (!blocks.empty()) move(blocks, {source}, output.size());
  }

 private:
  static std::byte* as_bytes(std::span<float> memory) {
    return reinterpret_cast<std::byte*>(memory.data());
  }
  std::vector<std::byte*> blocks_of(std::span<float> whole) const {
    const std::size_t length = whole.size() / static_cast<std::size_t>(ranks());
    std::vector<std::byte*> blocks;
    for (std::size_t at = 0; at + length <= whole.size(); at += length)
      blocks.push_back(as_bytes(whole.subspan(at)));
    return blocks;
  }
  void move(const std::vector<std::byte*>& to, const std::vector<const std::byte*>& from,
            std::size_t floats) const {
    reduce(to, from, floats / static_cast<std::size_t>(ranks()),
           {DataType::float32, ReduceOp::sum});
  }
};

struct Group {
  int ranks;
  std::string path, socket;
  Secret secret = Secret::random();
};

std::unique_ptr<Contestant> contestant_on(const std::string& path, Communicator& communicator) {
  if (path == "zero-copy") return std::make_unique<ZeroCopy>(communicator);
  if (path == "staged") return std::make_unique<Staged>(communicator);
  if (path == "memory") return std::make_unique<Memory>(communicator);
  die("there is no path '" + path + "'; there are zero-copy, staged and memory");
}

[[noreturn]] void live(const Group& group, int rank, int ports) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::uint16_t port = 0;
  if (::read(ports, &port, sizeof port) != sizeof port) die("no meeting place");
  auto meeting_place =
      RendezvousClient::connect("127.0.0.1", port, group.secret, Deadline::after(10s));
  if (!meeting_place) die(meeting_place.error().message);
  auto communicator = Communicator::create({.rank = rank,
                                            .size = group.ranks,
                                            .host_id = "contest",
                                            .secret = group.secret,
                                            .timeout = 30s,
                                            .address = "127.0.0.1"},
                                           **meeting_place);
  if (!communicator) die(communicator.error().message);
  serve(*contestant_on(group.path, **communicator), group.socket);
  communicator->reset();
  ::_exit(0);
}

// Forks before this process has threads; so the meeting place starts after.
int run(const Group& group) {
  const Pipe ports = make_pipe().value();
  for (int rank = 0; rank < group.ranks; ++rank)
    if (::fork() == 0) live(group, rank, ports.read.get());
  const auto server = RendezvousServer::start("127.0.0.1", 0, group.secret).value();
  const std::uint16_t port = server->port();
  for (int rank = 0; rank < group.ranks; ++rank)
    LS_CHECK(::write(ports.write.get(), &port, sizeof port) == sizeof port);
  int failed = 0;
  for (int status = 0; ::wait(&status) > 0;) failed |= status;
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::contest

int main(int argc, char** argv) {
  if (argc != 4 || std::atoi(argv[1]) < 1)
    lockstep::contest::die("bench_contest RANKS zero-copy|staged|memory SOCKET");
  return lockstep::contest::run({std::atoi(argv[1]), argv[2], argv[3]});
}
