#include "platform/job_files/horovodrun_command.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "platform/core/model/stand_in.h"

namespace lockstep::job_files {
namespace {

// horovod.runner.launch, its parser of arguments: those without a value.
constexpr std::array<std::string_view, 22> kHorovodrunFlags = {"--verbose",
                                                               "--disable-cache",
                                                               "--no-stall-check",
                                                               "--stall-check",
                                                               "--autotune",
                                                               "--no-autotune",
                                                               "--hierarchical-allreduce",
                                                               "--no-hierarchical-allreduce",
                                                               "--hierarchical-allgather",
                                                               "--no-hierarchical-allgather",
                                                               "--torus-allreduce",
                                                               "--no-torus-allreduce",
                                                               "--timeline-mark-cycles",
                                                               "--no-timeline-mark-cycles",
                                                               "--log-with-timestamp",
                                                               "--log-without-timestamp",
                                                               "--gloo",
                                                               "--mpi",
                                                               "--jsrun",
                                                               "--tcp",
                                                               "--elastic",
                                                               "--no-log-hide-timestamp"};

// Options that are variables of the ranks.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kVariables = {
    {{"--cycle-time-ms", "HOROVOD_CYCLE_TIME"},
     {"--cache-capacity", "HOROVOD_CACHE_CAPACITY"},
     {"--timeline-filename", "HOROVOD_TIMELINE"},
     {"--stall-check-warning-time-seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS"}}};

Error invalid_horovodrun(std::string message) {
  return {Code::invalid, "horovodrun: " + std::move(message)};
}

Result<int> positive(std::string_view option, std::string_view input) {
  int number = 0;
  const auto* const end = input.data() + input.size();
  const auto [stop, failure] = std::from_chars(input.data(), end, number);
  if (failure != std::errc() || stop != end || number < 1)
    return invalid_horovodrun(format("{} must be a positive number, got '{}'", option, input));
  return number;
}

// The number of words that name the launcher itself.
std::size_t horovodrun_words(const std::vector<ShellWord>& words) {
  const auto name_of = [](const std::string& path) {
    return path.substr(path.find_last_of('/') + 1);
  };
  if (!words.empty() && name_of(words[0].text) == "horovodrun") return 1;
  if (words.size() >= 3 && name_of(words[0].text).starts_with("python") && words[1].text == "-m" &&
      words[2].text == "horovod.runner.launch")
    return 3;
  return 0;
}

struct HorovodrunOptions {
  std::optional<int> processes;
  int hosts = 1;
  int slots = 0;  // of all hosts; 0: not said
};

// "node1:4,node2:4"
Result<void> read_hosts(const std::string& list, HorovodrunOptions& found) {
  found.hosts = found.slots = 0;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string host = list.substr(begin, end - begin);
    const auto colon = host.rfind(':');
    ++found.hosts;
    found.slots += colon == std::string::npos
                       ? 1
                       : TRY(positive("-H", std::string_view(host).substr(colon + 1)));
    begin = end + 1;
  }
  return {};
}

Result<void> apply_horovodrun_option(const std::string& option, const std::string& value,
                                     HorovodrunOptions& found, TakenRun& run) {
  if (option == "-np" || option == "--num-proc") {
    found.processes = TRY(positive(option, value));
  } else if (option == "-H" || option == "--hosts") {
    TRY(read_hosts(value, found));
    run.left_out.push_back(format("horovodrun {} {}: Lockstep chooses the hosts", option, value));
  } else if (option == "--reset-limit") {
    run.spec.rank_loss_retries = TRY(positive(option, value));
  } else if (option == "--fusion-threshold-mb") {
    const std::int64_t bytes = std::int64_t{TRY(positive(option, value))} << 20;
    run.spec.env["HOROVOD_FUSION_THRESHOLD"] = format("{}", bytes);
  } else if (const auto* at = std::ranges::find(
                 kVariables, option, &std::pair<std::string_view, std::string_view>::first);
             at != kVariables.end()) {
    run.spec.env[std::string(at->second)] = value;
  } else {
    run.left_out.push_back(format("horovodrun {} {}", option, value));
  }
  return {};
}

Result<void> set_size(const HorovodrunOptions& found, TakenRun& run) {
  const int processes = found.processes.value_or(found.slots);
  if (processes == 0) return invalid_horovodrun("it names no number of processes: add -np 4");
  if (processes % found.hosts != 0)
    return invalid_horovodrun(
        format("-np {} does not divide among {} hosts: each node of a run has as many ranks; give "
               "them by -n and -g",
               processes, found.hosts));
  run.spec.nodes = found.hosts;
  run.spec.devices = processes / found.hosts;
  return {};
}

}  // namespace

bool is_horovodrun(const std::vector<ShellWord>& words) { return horovodrun_words(words) > 0; }

Result<void> apply_horovodrun(const std::vector<ShellWord>& words, TakenRun& run) {
  const std::vector<std::string> texts = TRY(known_texts(words));
  HorovodrunOptions found;
  std::size_t at = horovodrun_words(words);
  while (at < texts.size() && texts[at].starts_with('-') && texts[at] != "--") {
    const std::string word = texts[at++];
    const auto equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    const std::string option = word.substr(0, equals);
    if (option == "--no-stall-check") run.spec.env["HOROVOD_STALL_CHECK_DISABLE"] = "1";
    if (option == "--disable-cache") continue;
    if (std::ranges::find(kHorovodrunFlags, option) != kHorovodrunFlags.end()) continue;
    if (equals != std::string::npos) {
      TRY(apply_horovodrun_option(option, word.substr(equals + 1), found, run));
      continue;
    }
    if (at == texts.size()) return invalid_horovodrun(format("{} has no value", option));
    TRY(apply_horovodrun_option(option, texts[at++], found, run));
  }
  if (at < texts.size() && texts[at] == "--") ++at;
  if (at == texts.size()) return invalid_horovodrun("it names no program");
  TRY(set_size(found, run));
  run.spec.env[std::string(model::kHorovod)] = "1";
  run.spec.command.assign(texts.begin() + static_cast<std::ptrdiff_t>(at), texts.end());
  return {};
}

}  // namespace lockstep::job_files
