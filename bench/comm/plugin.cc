// NCCL's plugin beside libfabric itself: the same messages through the plugin's table and through
// fi_tsend and fi_trecv, on loopback, in turns of some milliseconds. The better half of each one's
// turns counts, and of that half the median.
//
// "wall": two processes, and the time that passes in the first one, as users have it. "cpu": one
// thread serves both ends, and its CPU time counts: the figures are of the software, and a busy
// machine's scheduler has no part in them.
//
// A poll without a result gives the processor away (sched_yield), as NCCL's proxy thread does. On a
// machine with fewer free cores than ends, an end that spins would use up its time slice, some
// milliseconds, before the other can answer. A turn lasts until a time, not for a number of
// messages, so the whole takes as long on any machine.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"
#include "comm/nccl_plugin/devices.h"
#include "comm/nccl_plugin/loaded_plugin.h"

namespace lockstep::bench {
namespace {

using namespace comm;
using namespace comm::nccl;

constexpr int kRounds = 61;
constexpr std::size_t kWindow = 8;       // messages in flight, as NCCL's steps of a buffer
constexpr std::size_t kPingPongs = 500;  // of a turn of one thread
constexpr std::size_t kSmall = 8;
constexpr std::size_t kTurnBytes = 8 << 20;  // the same
constexpr double kTurnSeconds = 0.02;        // of two processes
constexpr std::size_t kFirstMessages = 32;   // which tell how many fit into that time
// Longer without a result: the other end is lost.
constexpr double kPatience = 30;

void say(const std::string& text) { std::fprintf(stderr, "plugin: %s\n", text.c_str()); }

double seconds_on(clockid_t clock) {
  timespec now;
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// CPU time of this thread: other programs may use the processor meanwhile.
double seconds_worked() { return seconds_on(CLOCK_THREAD_CPUTIME_ID); }

// A wait for the other end. It looks at the clock seldom, because some polls take 50 ns.
class Wait {
 public:
  explicit Wait(const char* what) : what_(what) {}
  // After a poll without a result.
  void once_more() {
    ::sched_yield();
    if (++polls_ % 1024 != 0) return;
    const double now = seconds_on(CLOCK_MONOTONIC);
    if (begin_ == 0) begin_ = now;
    if (now - begin_ < kPatience) return;
    std::fprintf(stderr, "plugin: %s did not end in %.0f s\n", what_, kPatience);
    std::fflush(stdout);
    ::_exit(1);
  }

 private:
  const char* what_;
  std::uint64_t polls_ = 0;
  double begin_ = 0;
};

// One end of a connection.
class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual void* start_send(void* data, std::size_t bytes) = 0;     // null: call again
  virtual void* start_receive(void* data, std::size_t bytes) = 0;  // null: call again
  virtual bool ended(void* request) = 0;
};

class Bootstrap {
 public:
  Bootstrap(int end, int number) : end_(end), number(number) {}
  void tell(const void* data, std::size_t bytes) const {
    LS_CHECK(::write(end_, data, bytes) == static_cast<ssize_t>(bytes));
  }
  void hear(void* data, std::size_t bytes) const {
    for (std::size_t done = 0; done < bytes;) {
      pollfd waited{end_, POLLIN, 0};
      LS_CHECK(::poll(&waited, 1, static_cast<int>(kPatience * 1000)) == 1,
               "the other end is silent");
      const auto got = ::read(end_, static_cast<char*>(data) + done, bytes - done);
      LS_CHECK(got > 0);
      done += static_cast<std::size_t>(got);
    }
  }

 private:
  int end_;

 public:
  const int number;
};

class Raw : public Contestant {
 public:
  explicit Raw(const Bootstrap& bootstrap, const Device& device) : number_(bootstrap.number) {
    auto& info = *device.info;
    LS_CHECK(libfabric().fabric(info.fabric_attr, &fabric_, nullptr) == 0);
    LS_CHECK(fi_domain(fabric_, &info, &domain_, nullptr) == 0);
    fi_av_attr table{};
    table.type = FI_AV_TABLE;
    LS_CHECK(fi_av_open(domain_, &table, &addresses_, nullptr) == 0);
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_TAGGED;
    queue.size = info.tx_attr->size + info.rx_attr->size;
    LS_CHECK(fi_cq_open(domain_, &queue, &completions_, nullptr) == 0);
    LS_CHECK(fi_endpoint(domain_, &info, &endpoint_, nullptr) == 0);
    LS_CHECK(fi_ep_bind(endpoint_, &addresses_->fid, 0) == 0);
    LS_CHECK(fi_ep_bind(endpoint_, &completions_->fid, FI_TRANSMIT | FI_RECV) == 0);
    LS_CHECK(fi_enable(endpoint_) == 0);
    std::array<char, 256> own{}, other{};
    std::size_t length = own.size();
    LS_CHECK(fi_getname(&endpoint_->fid, own.data(), &length) == 0);
    bootstrap.tell(own.data(), own.size());
    bootstrap.hear(other.data(), other.size());
    LS_CHECK(fi_av_insert(addresses_, other.data(), 1, &peer_, 0, nullptr) == 1);
  }
  void* start_send(void* data, std::size_t bytes) override {
    auto* const operation = next();
    const auto status = fi_tsend(endpoint_, data, bytes, nullptr, peer_,
                                 static_cast<std::uint64_t>(number_), &operation->context);
    return taken(status, operation);
  }
  void* start_receive(void* data, std::size_t bytes) override {
    auto* const operation = next();
    const auto status = fi_trecv(endpoint_, data, bytes, nullptr, FI_ADDR_UNSPEC,
                                 static_cast<std::uint64_t>(1 - number_), 0, &operation->context);
    return taken(status, operation);
  }
  bool ended(void* request) override {
    auto* const operation = static_cast<Operation*>(request);
    if (!operation->ended) poll();
    return operation->ended;
  }

 private:
  struct Operation {
    fi_context2 context;
    bool ended = false;
  };
  Operation* next() {
    auto* const operation = &operations_[next_ % operations_.size()];
    operation->ended = false;
    return operation;
  }
  void* taken(long status, Operation* operation) {
    LS_CHECK(status == 0 || status == -FI_EAGAIN);
    if (status == 0) ++next_;
    if (status != 0) poll();
    return status == 0 ? operation : nullptr;
  }
  void poll() {
    std::array<fi_cq_tagged_entry, 32> entries;
    const auto got = fi_cq_read(completions_, entries.data(), entries.size());
    LS_CHECK(got > 0 || got == -FI_EAGAIN);
    for (long i = 0; i < got; ++i)
      static_cast<Operation*>(entries[static_cast<std::size_t>(i)].op_context)->ended = true;
  }

  const int number_;
  fid_fabric* fabric_ = nullptr;  // left to the end of the process
  fid_domain* domain_ = nullptr;
  fid_av* addresses_ = nullptr;
  fid_cq* completions_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  fi_addr_t peer_ = 0;
  std::array<Operation, 64> operations_{};
  std::size_t next_ = 0;
};

class ThroughPlugin : public Contestant {
 public:
  ThroughPlugin(const Bootstrap& bootstrap, const char* path) : net_(open_plugin(path, 12)) {
    LS_CHECK(net_ && net_->init(nullptr) == Status::success);
    HandleBytes own{}, other{};
    void* listener = nullptr;
    LS_CHECK(net_->listen(0, own, &listener) == Status::success);
    bootstrap.tell(own.data(), own.size());
    bootstrap.hear(other.data(), other.size());
    for (Wait wait("connecting"); sender_ == nullptr || receiver_ == nullptr; wait.once_more()) {
      if (sender_ == nullptr) LS_CHECK(net_->connect(0, other, &sender_) == Status::success);
      if (receiver_ == nullptr) LS_CHECK(net_->accept(listener, &receiver_) == Status::success);
    }
  }
  void* start_send(void* data, std::size_t bytes) override {
    void* request = nullptr;
    LS_CHECK(net_->send(sender_, data, bytes, 0, nullptr, &request) == Status::success);
    return request;
  }
  void* start_receive(void* data, std::size_t bytes) override {
    void* request = nullptr;
    int tag = 0;
    void* memory = nullptr;
    LS_CHECK(net_->receive(receiver_, {&data, 1}, {&bytes, 1}, {&tag, 1}, {&memory, 1}, &request) ==
             Status::success);
    return request;
  }
  bool ended(void* request) override {
    int done = 0;
    LS_CHECK(net_->test(request, &done, nullptr) == Status::success);
    return done != 0;
  }

 private:
  std::unique_ptr<Net> net_;
  void* sender_ = nullptr;
  void* receiver_ = nullptr;
};

using Ends = std::array<std::unique_ptr<Contestant>, 2>;

template <class Start>
void* started(Start start) {
  for (Wait wait("the start of a message");; wait.once_more())
    if (void* const request = start()) return request;
}

// A message from one end to the other.
struct Carried {
  void* sent = nullptr;
  void* received = nullptr;
};

Carried start(Contestant& from, Contestant& to, char* data, std::size_t bytes) {
  Carried carried;
  carried.received = started([&] { return to.start_receive(data + bytes, bytes); });
  for (Wait wait("the start of a message");; wait.once_more()) {
    carried.sent = from.start_send(data, bytes);
    if (carried.sent != nullptr) break;
    (void)to.ended(carried.received);  // while the provider connects
  }
  return carried;
}

void finish(Contestant& from, Contestant& to, Carried carried) {
  bool sent = false, received = false;
  for (Wait wait("a message");; wait.once_more()) {
    if (!sent) sent = from.ended(carried.sent);
    // A request that has ended must not be tested again.
    if (!received) received = to.ended(carried.received);
    if (sent && received) return;
  }
}

// Seconds of one message, of which kWindow are under way.
double stream(const Ends& ends, std::vector<char>& memory, std::size_t bytes) {
  const auto messages = kTurnBytes / bytes;
  const double begin = seconds_worked();
  std::array<Carried, kWindow> window{};
  for (std::size_t i = 0; i < messages + kWindow; ++i) {
    auto& place = window[i % kWindow];
    if (i >= kWindow) finish(*ends[0], *ends[1], place);
    char* const data = memory.data() + i % kWindow * 2 * bytes;
    if (i < messages) place = start(*ends[0], *ends[1], data, bytes);
  }
  const double taken = seconds_worked() - begin;
  return taken / static_cast<double>(messages);
}

// Seconds one way.
double ping_pong(const Ends& ends, std::vector<char>& memory) {
  const double begin = seconds_worked();
  for (std::size_t i = 0; i < 2 * kPingPongs; ++i) {
    auto& from = *ends[i % 2];
    auto& to = *ends[1 - i % 2];
    finish(from, to, start(from, to, memory.data(), kSmall));
  }
  const double taken = seconds_worked() - begin;
  return taken / (2 * kPingPongs);
}

double median_of_better_half(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 4];
}

// In turns, of which the first of each is not counted. run(i) is the time of contestant i.
template <class Run>
std::array<double, 2> take_turns(Run run) {
  std::array<std::vector<double>, 2> times;
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < 2; ++i) {
      const auto turn = (i + static_cast<std::size_t>(round)) % 2;
      const double time = run(turn);
      if (round > 0) times[turn].push_back(time);
    }
  return {median_of_better_half(times[0]), median_of_better_half(times[1])};
}

// Both ends open side by side, as each waits for the other's address.
template <class Open>
Ends open_both(Open open) {
  std::array<int, 2> ends{};
  LS_CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  Ends opened;
  std::thread other([&] { opened[1] = open(Bootstrap(ends[1], 1)); });
  opened[0] = open(Bootstrap(ends[0], 0));
  other.join();
  for (const int end : ends) ::close(end);
  return opened;
}

struct Pairs {
  Ends ours, raw;
  const Ends& at(std::size_t turn) const { return turn == 0 ? ours : raw; }
};

// own and peer: seconds of a message.
struct Case {
  const char* clock;
  std::string provider;
  std::size_t bytes;
};

void show_bandwidth(const Case& measured, double own, double peer) {
  const auto gigabytes = static_cast<double>(measured.bytes) / 1e9;
  std::printf(
      "{\"bench\": \"plugin\", \"case\": \"bandwidth\", \"clock\": \"%s\", "
      "\"provider\": \"%s\", \"bytes\": %zu, \"unit\": \"GB/s\", \"ours\": %.3f, "
      "\"peer\": %.3f, \"peer_name\": \"libfabric\", \"ratio\": %.3f, \"bar\": 0.95}\n",
      measured.clock, measured.provider.c_str(), measured.bytes, gigabytes / own, gigabytes / peer,
      peer / own);
  std::fflush(stdout);
}

void show_latency(const Case& measured, double own, double peer) {
  std::printf(
      "{\"bench\": \"plugin\", \"case\": \"latency\", \"clock\": \"%s\", "
      "\"provider\": \"%s\", \"bytes\": %zu, \"unit\": \"us\", \"ours\": %.2f, "
      "\"peer\": %.2f, \"peer_name\": \"libfabric\", \"more_us\": %.2f, "
      "\"more_us_bar\": 2.0}\n",
      measured.clock, measured.provider.c_str(), measured.bytes, own * 1e6, peer * 1e6,
      (own - peer) * 1e6);
  std::fflush(stdout);
}

constexpr std::array kSizes = {std::size_t{64} << 10, std::size_t{1} << 20};

void set_up(const std::string& provider) {
  ::setenv("LOCKSTEP_FABRIC_PROVIDER", provider.c_str(), 1);
  ::setenv("LOCKSTEP_ADDRESS", "127.0.0.1", 1);
}

void measure_work(const std::string& provider, const char* plugin) {
  set_up(provider);
  say(format("{}, one thread serves both ends", provider));
  const auto devices = find_devices(own_environment()).value();
  Pairs pairs;
  pairs.ours =
      open_both([&](const Bootstrap& end) { return std::make_unique<ThroughPlugin>(end, plugin); });
  pairs.raw =
      open_both([&](const Bootstrap& end) { return std::make_unique<Raw>(end, devices.front()); });
  for (const std::size_t bytes : kSizes) {
    std::vector<char> memory(bytes * 2 * kWindow);
    const auto [own, peer] =
        take_turns([&](std::size_t turn) { return stream(pairs.at(turn), memory, bytes); });
    show_bandwidth({"cpu", provider, bytes}, own, peer);
  }
  std::vector<char> memory(2 * kSmall);
  const auto [own, peer] =
      take_turns([&](std::size_t turn) { return ping_pong(pairs.at(turn), memory); });
  show_latency({"cpu", provider, kSmall}, own, peer);
}

// One end of the two processes.
class OneEnd {
 public:
  OneEnd(Contestant& contestant, bool is_first) : contestant_(contestant), is_first_(is_first) {}

  // Seconds of one message, of which kWindow are under way, in the first process.
  double stream(std::vector<char>& memory, std::size_t bytes, std::size_t messages) {
    meet(memory);
    const auto begin = std::chrono::steady_clock::now();
    std::array<void*, kWindow> window{};
    for (std::size_t i = 0; i < messages + kWindow; ++i) {
      auto& place = window[i % kWindow];
      if (i >= kWindow) finish(place);
      if (i < messages) place = start(is_first_, memory.data() + i % kWindow * bytes, bytes);
    }
    meet(memory);
    return seconds_since(begin) / static_cast<double>(messages);
  }

  // Seconds one way, of messages both ways.
  double ping_pong(std::vector<char>& memory, std::size_t messages) {
    meet(memory);
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < messages; ++i) meet(memory);
    return seconds_since(begin) / (2 * static_cast<double>(messages));
  }

 private:
  static double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  void* start(bool sends, char* data, std::size_t bytes) {
    return started([&] {
      return sends ? contestant_.start_send(data, bytes) : contestant_.start_receive(data, bytes);
    });
  }
  void finish(void* request) {
    for (Wait wait("a message"); !contestant_.ended(request); wait.once_more()) {
    }
  }
  // The first sends and the other answers.
  void meet(std::vector<char>& memory) {
    for (const bool sends : {is_first_, !is_first_}) finish(start(sends, memory.data(), kSmall));
  }

  Contestant& contestant_;
  const bool is_first_;
};

// The number of messages of a turn, which the first process chooses by the slower contestant.
// run(i, messages) is the time of a message.
template <class Run>
std::size_t messages_of_turn(const Bootstrap& bootstrap, Run run) {
  const double slower = std::max(run(0, kFirstMessages), run(1, kFirstMessages));
  std::uint64_t messages =
      std::clamp<std::uint64_t>(static_cast<std::uint64_t>(kTurnSeconds / slower), kWindow, 4096);
  if (bootstrap.number == 0)
    bootstrap.tell(&messages, sizeof messages);
  else
    bootstrap.hear(&messages, sizeof messages);
  return messages;
}

void measure_time(const std::string& provider, const char* plugin, const Bootstrap& bootstrap) {
  set_up(provider);
  const auto devices = find_devices(own_environment()).value();
  const bool is_first = bootstrap.number == 0;
  if (is_first) say(format("{}, two processes: connecting", provider));
  ThroughPlugin ours(bootstrap, plugin);
  Raw raw(bootstrap, devices.front());
  std::array ends = {OneEnd(ours, is_first), OneEnd(raw, is_first)};
  std::vector<char> memory(kSizes.back() * kWindow);
  const auto measure = [&](std::string_view what, auto run) {
    const auto messages = messages_of_turn(bootstrap, run);
    if (is_first)
      say(format("{}, two processes: {}, {} messages a turn", provider, what, messages));
    return take_turns([&](std::size_t turn) { return run(turn, messages); });
  };
  for (const std::size_t bytes : kSizes) {
    const auto [own, peer] = measure("bandwidth", [&](std::size_t turn, std::size_t messages) {
      return ends[turn].stream(memory, bytes, messages);
    });
    if (is_first) show_bandwidth({"wall", provider, bytes}, own, peer);
  }
  const auto [own, peer] = measure("latency", [&](std::size_t turn, std::size_t messages) {
    return ends[turn].ping_pong(memory, messages);
  });
  if (is_first) show_latency({"wall", provider, kSmall}, own, peer);
}

// In a process of its own, which reads its settings once.
template <class Body>
void in_child(Body body) {
  if (::fork() != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  body();
  std::fflush(stdout);
  ::_exit(0);
}

bool children_succeed(int count) {
  bool succeeded = true;
  for (int child = 0; child < count; ++child) {
    int status = 0;
    succeeded = ::wait(&status) > 0 && status == 0 && succeeded;
  }
  return succeeded;
}

int run(const char* plugin) {
  for (const std::string provider : {"tcp;ofi_rxm", "shm"}) {
    std::array<int, 2> sockets{};
    LS_CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()) == 0);
    for (const int number : {0, 1})
      in_child([&] {
        measure_time(provider, plugin,
                     Bootstrap(sockets[static_cast<std::size_t>(number)], number));
      });
    for (const int socket : sockets) ::close(socket);
    if (!children_succeed(2)) return 1;
    in_child([&] { measure_work(provider, plugin); });
    if (!children_succeed(1)) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int count, char** arguments) {
  if (count != 2) return 2;
  return lockstep::bench::run(arguments[1]);
}
