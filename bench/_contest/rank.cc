#include "rank.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <sstream>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace lockstep::bench::contest {
namespace {

// Whole numbers, so that sums are exact in any order, and different at elements close to each
// other.
float value_of(int rank, std::size_t index) {
  return static_cast<float>(index % 1021 + 3 * static_cast<std::size_t>(rank) + 1);
}

// One collective with its buffers.
struct Work {
  std::span<float> input, output;  // may overlap
  std::function<void()> call;
  std::function<float(std::size_t index)> expected;  // of the output
};

class Rank {
 public:
  explicit Rank(Contestant& contestant) : contestant_(contestant) {}

  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string verb, collective;  // or the algorithm
    std::size_t bytes = 0;
    int calls = 1;
    words >> verb >> collective >> bytes >> calls;
    if (verb == "take") {
      contestant_.select_algorithm(collective);
      return "taken";
    }
    const Work work = work_of(collective, bytes / sizeof(float));
    if (verb == "check") return check(work);
    if (verb == "run") return run(work, calls);
    exit_with_error("what is '" + line + "'?");
  }

 private:
  Work work_of(const std::string& collective, std::size_t floats) {
    if (collective == "all_reduce") return all_reduce(floats);
    if (collective == "reduce_scatter") return reduce_scatter(floats);
    if (collective == "all_gather") return all_gather(floats);
    exit_with_error("there is no collective '" + collective + "' in the contest");
  }

  Work all_reduce(std::size_t floats) {
    const auto values = buffer(floats).first(floats);
    return {values, values, [=, this] { contestant_.all_reduce(values); },
            [this](std::size_t index) { return sum_at(index); }};
  }

  Work reduce_scatter(std::size_t floats) {
    const std::size_t block = floats / ranks(), pages = (floats * sizeof(float) - 1) / kPage + 1;
    const std::size_t behind = pages * kPage / sizeof(float);
    const auto whole = buffer(behind + block);
    const auto input = whole.first(floats), output = whole.subspan(behind, block);
    return {input, output, [=, this] { contestant_.reduce_scatter(input, output); },
            [=, this](std::size_t index) { return sum_at(rank() * block + index); }};
  }

  Work all_gather(std::size_t floats) {
    const std::size_t block = floats / ranks();
    const auto output = buffer(floats).first(floats);
    return {output.subspan(rank() * block, block), output,
            [=, this] { contestant_.all_gather(output); },
            [=](std::size_t index) {
              return value_of(static_cast<int>(index / block), index % block);
            }};
  }

  std::string check(const Work& work) {
    std::ranges::fill(buffer_, -1.0F);
    for (std::size_t index = 0; index < work.input.size(); ++index)
      work.input[index] = value_of(contestant_.rank(), index);
    work.call();
    for (std::size_t index = 0; index < work.output.size(); ++index)
      if (work.output[index] != work.expected(index))
        return "element " + std::to_string(index) + " is " + std::to_string(work.output[index]) +
               ", not " + std::to_string(work.expected(index));
    return "right";
  }

  // On zeros: other sums would grow from call to call until they are infinite.
  std::string run(const Work& work, int calls) {
    std::ranges::fill(buffer_, 0.0F);
    work.call();
    contestant_.barrier();
    const auto sent = contestant_.wire_bytes();
    const double begin = now();
    for (int i = 0; i < calls; ++i) work.call();
    const double end = now();
    char times[64];
    std::snprintf(times, sizeof times, "%.9f %.9f", begin, end);
    if (!sent) return times;
    return times + (" " + std::to_string(*contestant_.wire_bytes() - *sent));
  }

  static double now() {
    const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(since_boot).count();
  }

  float sum_at(std::size_t index) const {
    float sum = 0;
    for (int rank = 0; rank < contestant_.ranks(); ++rank) sum += value_of(rank, index);
    return sum;
  }

  std::span<float> buffer(std::size_t floats) {
    if (floats > buffer_.size()) buffer_ = contestant_.allocate(floats);
    return buffer_;
  }

  std::size_t rank() const { return static_cast<std::size_t>(contestant_.rank()); }
  std::size_t ranks() const { return static_cast<std::size_t>(contestant_.ranks()); }

  Contestant& contestant_;
  std::span<float> buffer_;
};

int connected(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    exit_with_error("the socket's path is too long: " + path);
  std::ranges::copy(path, address.sun_path);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    exit_with_error("no rank listens on " + path);
  return fd;
}

}  // namespace

void serve(Contestant& contestant, const std::string& socket_path) {
  const int fd = connected(socket_path);
  std::FILE* const orders = ::fdopen(fd, "r");
  std::FILE* const answers = ::fdopen(::dup(fd), "w");
  std::fprintf(answers, "rank %d\n", contestant.rank());
  std::fflush(answers);
  Rank rank(contestant);
  for (char line[256]; std::fgets(line, sizeof line, orders) != nullptr;) {
    std::fprintf(answers, "%s\n", rank.answer(line).c_str());
    std::fflush(answers);
  }
  std::fclose(orders);
  std::fclose(answers);
}

void exit_with_error(const std::string& reason) {
  std::fprintf(stderr, "%s\n", reason.c_str());
  ::_exit(1);
}

PlainMemory plain_memory(std::size_t floats) {
  const std::size_t pages = floats * sizeof(float) / kPage + 1;
  void* const memory = std::aligned_alloc(kPage, pages * kPage);
  if (memory == nullptr)
    exit_with_error("there is no memory for " + std::to_string(pages) + " pages");
  return PlainMemory(static_cast<float*>(memory));
}

}  // namespace lockstep::bench::contest
