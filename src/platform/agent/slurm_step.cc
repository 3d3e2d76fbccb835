#include "platform/agent/slurm_step.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace lockstep::agent {
namespace {

std::vector<std::string> words_between_commas(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// Empty unless all are numbers.
std::vector<int> numbers_of(const std::vector<std::string>& words) {
  std::vector<int> numbers;
  for (const std::string& word : words) {
    int number = 0;
    const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (failure != std::errc() || end != word.data() + word.size()) return {};
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

bool is_slurm_step(const Environment& environment) { return environment.contains("SLURM_STEP_ID"); }

void use_place_of_slurm_step(host::LaunchSpec& launch, const Environment& environment) {
  const auto host = environment.find("SLURMD_NODENAME");
  if (launch.host.empty() && is_slurm_step(environment) && host != environment.end())
    launch.host = host->second;
  const auto visible = environment.find("CUDA_VISIBLE_DEVICES");
  if (!launch.gpus || !is_slurm_step(environment) || visible == environment.end()) return;
  auto gpus = words_between_commas(visible->second);
  if (gpus.size() != launch.devices.size() || gpus.front().empty()) return;
  launch.device_uuids.clear();
  if (auto numbers = numbers_of(gpus); !numbers.empty())
    launch.devices = std::move(numbers);
  else
    launch.device_uuids = std::move(gpus);
}

}  // namespace lockstep::agent
