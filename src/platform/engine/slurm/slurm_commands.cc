#include "platform/engine/slurm/slurm_commands.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <utility>

#include "base/format.h"
#include "base/os/environment.h"
#include "base/os/run_program.h"
#include "platform/engine/local/agent_program.h"
#include "platform/engine/slurm/slurm_output.h"

namespace lockstep::engine {
namespace {

// Slurm's own limit of a message is 10 s by default, and it tries several times.
constexpr Duration kSlurmCallLimit = std::chrono::seconds(30);

constexpr std::size_t kSlurmWordsMax = 400;

constexpr std::array<std::string_view, 16> kAwayWords = {
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Connection timed out",
    "No route to host",
    "Zero Bytes were transmitted",
    "Transport endpoint is not connected",
    "Slurm backup controller",
    "temporarily unable",
    "unge",  // Munge, munge, libmunge
    "authentication",
    "Authentication",
    "slurm_receive_msg",
    "DNS SRV lookup failed",
    "in standby mode",      // 21.08 and later: the other controller answers soon
    "Rate limit exceeded",  // 23.02 and later, with SlurmctldParameters=rl_enable
};

// From Slurm's src/common/slurm_errno.c, which has two forms of the user since 23.11. A limit that
// other jobs use up is no refusal.
constexpr std::array<std::string_view, 10> kRefusalWords = {
    "nvalid account",    // or account/partition combination
    "nvalid partition",  // name specified
    "nvalid qos",        // specification
    "nvalid wckey",      // specification
    "feature specification",
    "not permitted to use this partition",
    "nvalid user id",
    "nvalid user ID",
    "nvalid or unknown association",
    "Access/permission denied",
};

Environment slurm_environment() {
  Environment kept = agent_environment();
  const Environment own = own_environment();
  if (const auto file = own.find("SLURM_CONF"); file != own.end()) kept.insert(*file);
  return kept;
}

}  // namespace

bool is_slurm_away(std::string_view words) {
  return std::ranges::any_of(
      kAwayWords, [&](std::string_view one) { return words.find(one) != std::string_view::npos; });
}

bool is_slurm_refusal(std::string_view words) {
  return std::ranges::any_of(kRefusalWords, [&](std::string_view one) {
    return words.find(one) != std::string_view::npos;
  });
}

std::string slurm_words(std::string_view output) {
  std::string words(output.substr(0, kSlurmWordsMax));
  std::ranges::replace(words, '\n', ' ');
  while (words.ends_with(' ')) words.pop_back();
  return words;
}

std::string slurm_error_words(std::string_view output) {
  std::string errors;
  for (std::string_view rest = output; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find("error") != std::string_view::npos) errors += format("{}\n", line);
  }
  return slurm_words(errors.empty() ? output : std::string_view(errors));
}

Result<std::string> InstalledSlurm::run(const std::vector<std::string>& command) {
  Environment environment = slurm_environment();
  if (command[0] == "squeue") environment.emplace(kSlurmTimeFormat);  // a job would inherit it
  auto ended = run_program(command, kSlurmCallLimit, environment);
  if (!ended && ended.error().code == Code::not_found)
    return Error{Code::not_found,
                 format("there is no program {} in the daemon's PATH: install Slurm's client "
                        "programs on this machine",
                        command[0])};
  if (!ended) return Error{Code::unavailable, std::move(ended).error().message};
  if (ended->status == 0) return std::move(ended->output);
  std::string words = slurm_words(ended->output);
  if (words.empty()) words = format("exit code {}", ended->status);
  // Most programs of Slurm begin each line with their name.
  if (!words.starts_with(command[0] + ":")) words = format("{}: {}", command[0], words);
  return Error{is_slurm_away(words) ? Code::unavailable : Code::denied, std::move(words)};
}

}  // namespace lockstep::engine
