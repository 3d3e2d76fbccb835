#include "platform/core/model/slurm_request.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/format.h"
#include "base/utf8.h"

namespace lockstep::model {
namespace {

constexpr std::size_t kSlurmWordMax = 200;
constexpr std::size_t kSlurmOptionMax = 1000;
constexpr std::size_t kSlurmOptionsMax = 32;

struct RefusedOption {
  std::string_view name, remedy;
};
constexpr std::string_view kSetByLockstep = "Lockstep sets it";
constexpr std::string_view kHostsAreChosen = "Lockstep chooses the hosts";
constexpr std::string_view kSizeOfRun = "write nodes, devices and needs of the run";
constexpr std::string_view kEnvOfRun = "write env of the run";
constexpr std::string_view kOutputOfRun = "a run keeps its output";
constexpr std::string_view kStartsNoJob = "sbatch would start no job";
constexpr auto kRefused = std::to_array<RefusedOption>({
    {"--account", "write slurm: account"},
    {"--array", "a run is one job"},
    {"--chdir", "write working_folder of the run"},
    {"--clusters", "the job must be in the cluster of the daemon"},
    {"--comment", kSetByLockstep},
    {"--constraint", "write slurm: constraint"},
    {"--cpus-per-gpu", kSizeOfRun},
    {"--cpus-per-task", kSizeOfRun},
    {"--error", kOutputOfRun},
    {"--exclude", kHostsAreChosen},
    {"--export", kEnvOfRun},
    {"--export-file", kEnvOfRun},
    {"--get-user-env", kEnvOfRun},
    {"--gid", kSetByLockstep},
    {"--gpus", kSizeOfRun},
    {"--gpus-per-node", kSizeOfRun},
    {"--gpus-per-socket", kSizeOfRun},
    {"--gpus-per-task", kSizeOfRun},
    {"--gres", kSizeOfRun},
    {"--help", kStartsNoJob},
    {"--input", kOutputOfRun},
    {"--job-name", kSetByLockstep},
    {"--no-kill", kSetByLockstep},
    {"--no-requeue", kSetByLockstep},
    {"--nodefile", kHostsAreChosen},
    {"--nodelist", kHostsAreChosen},
    {"--nodes", kSizeOfRun},
    {"--ntasks", kSizeOfRun},
    {"--ntasks-per-core", kSizeOfRun},
    {"--ntasks-per-gpu", kSizeOfRun},
    {"--ntasks-per-node", kSizeOfRun},
    {"--ntasks-per-socket", kSizeOfRun},
    {"--open-mode", kOutputOfRun},
    {"--output", kOutputOfRun},
    {"--parsable", kSetByLockstep},
    {"--partition", "write slurm: partition"},
    {"--qos", "write slurm: qos"},
    {"--requeue", "Lockstep starts a lost run again in a new job"},
    {"--signal", kSetByLockstep},
    {"--switches", "write slurm: switches"},
    {"--test-only", kStartsNoJob},
    {"--time", "write timeout of the run"},
    {"--time-min", "write timeout of the run"},
    {"--uid", kSetByLockstep},
    {"--usage", kStartsNoJob},
    {"--version", kStartsNoJob},
    {"--wait", "`lockstep run` waits for the end"},
    {"--wrap", "the job is that of Lockstep"},
});

Error wrong_request(std::string message) { return {Code::invalid, std::move(message)}; }

Result<void> check_slurm_word(std::string_view field, const std::optional<std::string>& word) {
  if (!word) return {};
  const bool is_word = !word->empty() && word->size() <= kSlurmWordMax && is_printable(*word) &&
                       word->find(' ') == std::string::npos && !word->starts_with('-');
  if (is_word) return {};
  return wrong_request(format("{}: must be one word of at most {} bytes, got '{}'", field,
                              kSlurmWordMax, escape_controls(*word)));
}

// sbatch takes an unambiguous beginning of a name for the whole one, so each beginning of a refused
// name is refused, unless it is the name of another option.
const RefusedOption* find_refused(std::string_view name) {
  constexpr auto kOthers = std::to_array<std::string_view>({"--mem", "--no"});
  if (std::ranges::find(kOthers, name) != kOthers.end()) return nullptr;
  const auto* const found = std::ranges::find_if(
      kRefused, [&](const RefusedOption& one) { return one.name.starts_with(name); });
  return found == kRefused.end() ? nullptr : found;
}

Result<void> check_slurm_option(const std::string& option) {
  const std::string_view name = std::string_view(option).substr(0, option.find('='));
  if (option.size() > kSlurmOptionMax || !is_printable(option))
    return wrong_request(format("options: '{}' must be one line of at most {} bytes",
                                escape_controls(name), kSlurmOptionMax));
  if (name.size() < 3 || !name.starts_with("--"))
    return wrong_request(format(
        "options: '{}': write the long form in one word, such as --reservation=night", option));
  if (const RefusedOption* refused = find_refused(name))
    return wrong_request(
        format("options: {} is no option of a run: {}", refused->name, refused->remedy));
  return {};
}

bool is_feature_letter(unsigned char one) {
  return std::isalnum(one) != 0 || one == '-' || one == '_' || one == '.' || one == '/';
}

// N, or N@TIME with a time of Slurm such as 10:00 or 1-12:00:00.
bool is_switch_count(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t end = std::min(text.find_first_not_of(kDigits), text.size());
  if (end == 0) return false;
  if (end == text.size()) return true;
  const std::string_view time = text.substr(end + 1);
  return text[end] == '@' && !time.empty() &&
         time.find_first_not_of("0123456789:-") == std::string_view::npos;
}

}  // namespace

Result<std::vector<std::string>> features_of(const std::string& constraint) {
  std::vector<std::string> features(1);
  for (const char one : constraint) {
    if (one == '&' || one == ',')
      features.emplace_back();
    else
      features.back() += one;
  }
  const auto is_feature = [](const std::string& word) {
    return !word.empty() && std::ranges::all_of(word, is_feature_letter);
  };
  if (std::ranges::all_of(features, is_feature)) return features;
  return wrong_request(
      format("constraint: '{}': write features that are joined by &, such as a100&nvlink: Lockstep "
             "chooses the hosts, and knows no other form",
             escape_controls(constraint)));
}

Result<void> check(const SlurmRequest& request) {
  TRY(check_slurm_word("account", request.account));
  TRY(check_slurm_word("qos", request.qos));
  TRY(check_slurm_word("constraint", request.constraint));
  TRY(check_slurm_word("partition", request.partition));
  TRY(check_slurm_word("switches", request.switches));
  if (request.switches && !is_switch_count(*request.switches))
    return wrong_request(format("switches: '{}': write N or N@TIME, such as 1@10:00",
                                escape_controls(*request.switches)));
  if (request.partition && request.partition->find(',') != std::string::npos)
    return wrong_request(
        format("partition: '{}': write one, since Lockstep chooses the hosts", *request.partition));
  TRY(check_slurm_word("gpu_type", request.gpu_type));
  if (request.gpu_type && !std::ranges::all_of(*request.gpu_type, is_feature_letter))
    return wrong_request(
        format("gpu_type: '{}': write a type of `sinfo -o %G`, such as h100", *request.gpu_type));
  if (request.constraint) TRY(features_of(*request.constraint));
  if (!request.options) return {};
  if (request.options->size() > kSlurmOptionsMax)
    return wrong_request(format("options: must be at most {}", kSlurmOptionsMax));
  for (const std::string& option : *request.options) TRY(check_slurm_option(option));
  return {};
}

}  // namespace lockstep::model
