#include "apps/host/each_host.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "apps/cli/terminal.h"
#include "base/format.h"
#include "base/mutex.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kAtATime = 16;

}  // namespace

Result<void> check_targets(const std::string& action, const std::vector<std::string>& targets) {
  if (targets.empty())
    return Error{Code::invalid,
                 format("host {}: name a host as for ssh, such as ann@gpu1", action)};
  for (auto target = targets.begin(); target != targets.end(); ++target) {
    if (target->empty() || target->starts_with('-'))
      return Error{Code::invalid, format("host {}: '{}' is no name of a host", action, *target)};
    if (std::find(targets.begin(), target, *target) != target)
      return Error{Code::invalid, format("host {}: {} is named twice", action, *target)};
  }
  return {};
}

std::size_t for_each_host(const std::vector<std::string>& targets, const HostWork& work) {
  Mutex printing;
  std::atomic<std::size_t> next = 0, failures = 0;
  const auto print_line = [&](const std::string& line) {
    const Lock lock(printing);
    print_to_stderr(line);
  };
  const auto work_on_some = [&] {
    for (std::size_t i = next++; i < targets.size(); i = next++) {
      const auto done =
          work(i, [&](std::string_view step) { print_line(format("{}: {}", targets[i], step)); });
      if (done) continue;
      ++failures;
      print_line(format("lockstep: {}: {}", targets[i], done.error().message));
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < std::min(kAtATime, targets.size()); ++i)
    threads.emplace_back(work_on_some);
  threads.clear();  // waits for them
  return failures;
}

}  // namespace lockstep::cli
