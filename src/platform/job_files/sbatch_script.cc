#include "platform/job_files/sbatch_script.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/format.h"
#include "platform/job_files/shell_line.h"
#include "platform/job_files/torchrun_command.h"

namespace lockstep::job_files {
namespace {

constexpr std::string_view kDirective = "#SBATCH";
constexpr auto kRemedy =
    "write a run file (`lockstep help run`), or start the script itself on one node by --as-is";

// Short options of sbatch and srun that stand for a long one with a value.
const std::map<std::string, std::string, std::less<>>& short_options() {
  static const auto* const all = new std::map<std::string, std::string, std::less<>>{
      {"-J", "--job-name"}, {"-N", "--nodes"},         {"-n", "--ntasks"},
      {"-t", "--time"},     {"-c", "--cpus-per-task"}, {"-D", "--chdir"},
      {"-G", "--gpus"},     {"-a", "--array"},         {"-p", "--partition"},
      {"-A", "--account"},  {"-q", "--qos"},           {"-C", "--constraint"},
      {"-o", "--output"},   {"-e", "--error"},         {"-w", "--nodelist"},
      {"-x", "--exclude"},  {"-d", "--dependency"},    {"-m", "--distribution"},
      {"-i", "--input"}};
  return *all;
}

// Those of srun without a value.
const std::set<std::string, std::less<>>& srun_flags() {
  static const auto* const all = new std::set<std::string, std::less<>>{"-l",
                                                                        "--label",
                                                                        "-u",
                                                                        "--unbuffered",
                                                                        "--exclusive",
                                                                        "--overlap",
                                                                        "--exact",
                                                                        "-O",
                                                                        "--overcommit",
                                                                        "-K",
                                                                        "--kill-on-bad-exit",
                                                                        "-v",
                                                                        "--verbose",
                                                                        "-Q",
                                                                        "--quiet",
                                                                        "-Z",
                                                                        "--no-allocate",
                                                                        "-s",
                                                                        "--oversubscribe",
                                                                        "--pty",
                                                                        "-W",
                                                                        "-X",
                                                                        "-k",
                                                                        "--no-kill"};
  return *all;
}

Error wrong(std::string message) { return {Code::invalid, std::move(message)}; }

Result<int> whole_number(std::string_view what, std::string_view input) {
  int number = 0;
  const auto* const end = input.data() + input.size();
  const auto [stop, failure] = std::from_chars(input.data(), end, number);
  if (failure != std::errc() || stop != end || number < 0)
    return wrong(format("{} must be a number, got '{}'", what, input));
  return number;
}

// "gpu:a100:4", "gpu:4" or "gpu", also in a list with other resources; nullopt: it has no GPUs.
Result<std::optional<int>> gpus_of_gres(std::string_view option, std::string_view value) {
  std::optional<int> gpus;
  while (!value.empty()) {
    const auto comma = std::min(value.find(','), value.size());
    const std::string_view one = value.substr(0, comma);
    value.remove_prefix(std::min(comma + 1, value.size()));
    if (one != "gpu" && !one.starts_with("gpu:")) continue;
    const auto colon = one.rfind(':');
    const std::string_view last = colon == std::string_view::npos ? "1" : one.substr(colon + 1);
    const bool is_count = !last.empty() && std::isdigit(static_cast<unsigned char>(last[0])) != 0;
    gpus = is_count ? TRY(whole_number(option, last)) : 1;
  }
  return gpus;
}

// The type in "gpu:a100:4" or "a100:4"; empty: it has none.
std::string gpu_type_of(std::string_view value) {
  if (const auto gpu = value.find("gpu:"); gpu != std::string_view::npos)
    value = value.substr(gpu + 4);
  value = value.substr(0, value.find_first_of(":,"));
  const bool is_count =
      std::ranges::all_of(value, [](unsigned char one) { return std::isdigit(one) != 0; });
  return is_count ? "" : std::string(value);
}

// --gpus-per-node and others: "4" or "a100:4".
Result<int> gpu_count(std::string_view option, std::string_view value) {
  return whole_number(option, value.substr(value.rfind(':') + 1));
}

// Slurm's units are binary; without one it is MiB.
Result<Bytes> slurm_memory(std::string_view input) {
  const bool has_unit =
      !input.empty() && std::isalpha(static_cast<unsigned char>(input.back())) != 0;
  const std::string_view digits = input.substr(0, input.size() - (has_unit ? 1 : 0));
  const char unit = has_unit ? static_cast<char>(std::toupper(input.back())) : 'M';
  if (std::string_view("KMGT").find(unit) == std::string_view::npos)
    return wrong(format("--mem: the unit of '{}' is not K, M, G or T", input));
  return parse_bytes(format("{} {}iB", TRY(whole_number("--mem", digits)), unit));
}

struct Request {
  std::optional<int> nodes, tasks, tasks_per_node, gpus_per_node, gpus, gpus_per_task, cores;
};

class ScriptReader {
 public:
  ScriptReader(std::string_view name, const ShellVariables& environment)
      : name_(name), environment_(environment) {}

  Result<TakenRun> read(std::string_view content) {
    int number = 0;
    while (!content.empty()) {
      line_ = number + 1;
      const std::string logical = take_line(content, number);
      if (auto done = read_line(logical); !done)
        return Error{done.error().code, format("{}:{}: {}", name_, line_, done.error().message)};
    }
    if (!command_line_)
      return wrong(
          format("{}: no line starts a program by srun, torchrun or python; {}", name_, kRemedy));
    line_ = *command_line_;
    if (auto done = finish(); !done)
      return Error{done.error().code, format("{}:{}: {}", name_, line_, done.error().message)};
    return std::move(run_);
  }

 private:
  // With the lines that a backslash continues.
  static std::string take_line(std::string_view& content, int& number) {
    std::string logical;
    while (!content.empty()) {
      const auto end = std::min(content.find('\n'), content.size());
      std::string_view part = content.substr(0, end);
      content.remove_prefix(std::min(end + 1, content.size()));
      ++number;
      if (part.ends_with('\r')) part.remove_suffix(1);
      if (!part.ends_with('\\') || part.starts_with('#')) return logical + std::string(part);
      part.remove_suffix(1);
      logical += part;
      logical += ' ';
    }
    return logical;
  }

  void leave_out(std::string_view what) {
    run_.left_out.push_back(format("line {}: {}", line_, what));
  }

  Result<void> read_line(std::string_view line) {
    while (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
    if (line.starts_with(kDirective) && !seen_command_)
      return read_directive(line.substr(kDirective.size()));
    if (line.empty() || line.starts_with('#')) return {};
    seen_command_ = true;
    return read_command(line);
  }

  // --- options of sbatch ---

  Result<void> read_directive(std::string_view text) {
    const ShellLine parsed = TRY(parse_shell_line(without_operators(text), {}));
    const auto words = TRY(known_texts(parsed.words));
    for (std::size_t at = 0; at < words.size(); ++at) {
      auto [option, value] = split_option(words[at]);
      const bool takes_next = !value && at + 1 < words.size() && !words[at + 1].starts_with('-');
      if (takes_next) value = words[++at];
      TRY(take_option(option, value.value_or(""), true));
    }
    return {};
  }

  // In an option of sbatch & and | are letters, as in `-C a100&nvlink`.
  static std::string without_operators(std::string_view text) {
    std::string escaped;
    char quote = 0;
    for (const char one : text) {
      if (quote == 0 && (one == '&' || one == '|')) escaped += '\\';
      if (one == '"' || one == '\'') quote = quote == 0 ? one : quote == one ? char{0} : quote;
      escaped += one;
    }
    return escaped;
  }

  // "--nodes=4", "-N4", "-N": the long name, and the value if the word has it.
  static std::pair<std::string, std::optional<std::string>> split_option(const std::string& word) {
    if (word.starts_with("--")) {
      const auto equals = word.find('=');
      if (equals == std::string::npos) return {word, std::nullopt};
      return {word.substr(0, equals), word.substr(equals + 1)};
    }
    const auto found = short_options().find(word.substr(0, 2));
    const std::string name = found == short_options().end() ? word : found->second;
    if (found == short_options().end() || word.size() == 2) return {name, std::nullopt};
    return {name, word.substr(2)};
  }

  Result<void> take_option(const std::string& option, const std::string& value,
                           bool says_left_out) {
    model::RunSpec& spec = run_.spec;
    if (option == "--job-name") {
      spec.name = value;
    } else if (option == "--nodes") {
      // "2-4": between 2 and 4
      request_.nodes = TRY(whole_number(option, value.substr(value.rfind('-') + 1)));
    } else if (option == "--ntasks") {
      request_.tasks = TRY(whole_number(option, value));
    } else if (option == "--ntasks-per-node") {
      request_.tasks_per_node = TRY(whole_number(option, value));
    } else if (option == "--gres") {
      if (const auto gpus = TRY(gpus_of_gres(option, value))) {
        request_.gpus_per_node = *gpus;
        take_slurm_option("gpu type", gpu_type_of(value));
      }
    } else if (option == "--gpus-per-node") {
      request_.gpus_per_node = TRY(gpu_count(option, value));
      take_slurm_option("gpu type", gpu_type_of(value));
    } else if (option == "--gpus-per-task") {
      request_.gpus_per_task = TRY(gpu_count(option, value));
      take_slurm_option("gpu type", gpu_type_of(value));
    } else if (option == "--gpus") {
      request_.gpus = TRY(gpu_count(option, value));
      take_slurm_option("gpu type", gpu_type_of(value));
    } else if (option == "--cpus-per-task") {
      request_.cores = TRY(whole_number(option, value));
    } else if (option == "--time") {
      spec.timeout = TRY(parse_slurm_time(value));
    } else if (option == "--mem") {
      spec.needs.memory = TRY(slurm_memory(value));
    } else if (option == "--chdir") {
      spec.working_folder = value;
    } else if (option == "--array") {
      return wrong(format("an array of jobs is not one run; {}", kRemedy));
    } else if (!take_slurm_option(option, value) && says_left_out) {
      leave_out(format("{}{}{}", option, value.empty() ? "" : " ", value));
    }
    return {};
  }

  // False: a run has no place for the option, or for this value of it.
  bool take_slurm_option(const std::string& option, const std::string& value) {
    model::SlurmRequest one;
    if (option == "--account") one.account = value;
    if (option == "--qos") one.qos = value;
    if (option == "--constraint") one.constraint = value;
    if (option == "--partition") one.partition = value;
    if (option == "--switches") one.switches = value;
    if (option == "gpu type" && !value.empty()) one.gpu_type = value;
    if (one == model::SlurmRequest() || !model::check(one)) return false;
    auto& asked = run_.spec.slurm ? *run_.spec.slurm : run_.spec.slurm.emplace();
    for (const auto member : {&model::SlurmRequest::account, &model::SlurmRequest::qos,
                              &model::SlurmRequest::constraint, &model::SlurmRequest::partition,
                              &model::SlurmRequest::switches, &model::SlurmRequest::gpu_type})
      if (one.*member) asked.*member = one.*member;
    return true;
  }

  // --- commands ---

  Result<void> read_command(std::string_view line) {
    static const std::set<std::string, std::less<>> control = {
        "if", "for", "while", "until", "case", "select", "function", "then", "else", "do", "{"};
    const std::string_view first = line.substr(0, line.find_first_of(" \t;("));
    if (control.contains(first)) return wrong(format("'{}' is not understood; {}", first, kRemedy));
    auto parsed = parse_shell_line(line, variables());
    if (!parsed) {
      if (starts_ranks(line)) return std::move(parsed).error();
      leave_out(line);
      return {};
    }
    std::vector<ShellWord>& words = parsed->words;
    if (words.empty()) return {};
    if (take_assignments(words) || take_environment(words)) return {};
    if (starts_ranks(words[0].text)) return keep_program(std::move(*parsed));
    leave_out(line);
    return {};
  }

  // Names by which a script starts its program.
  static bool starts_ranks(std::string_view line) {
    const std::string_view program = line.substr(0, line.find_first_of(" \t"));
    const std::string_view name = program.substr(program.rfind('/') + 1);
    return name == "srun" || name == "torchrun" || name.starts_with("python") ||
           program.starts_with("./");
  }

  Result<void> keep_program(ShellLine parsed) {
    const bool is_srun = parsed.words[0].text == "srun";
    if (command_line_ && has_srun_ && is_srun)
      return wrong(
          format("srun is in line {} too, and a run has one command; {}", *command_line_, kRemedy));
    if (command_line_ && has_srun_) {
      leave_out(parsed.words[0].text + " ...");
      return {};
    }
    if (command_line_)
      run_.left_out.push_back(format("line {}: {} ...", *command_line_, program_.words[0].text));
    command_line_ = line_;
    has_srun_ = is_srun;
    program_ = std::move(parsed);
    return {};
  }

  // NAME=VALUE, with export or without.
  bool take_assignments(const std::vector<ShellWord>& words) {
    const bool is_export = words[0].text == "export";
    const auto first = words.begin() + (is_export ? 1 : 0);
    const auto is_assignment = [](const ShellWord& word) {
      const auto equals = word.text.find('=');
      return equals != std::string::npos && equals > 0 &&
             std::ranges::all_of(word.text.substr(0, equals), [](unsigned char one) {
               return std::isalnum(one) != 0 || one == '_';
             });
    };
    if (first == words.end() || (!is_export && !std::all_of(first, words.end(), is_assignment)))
      return false;
    for (auto word = first; word != words.end(); ++word) {
      const auto equals = word->text.find('=');
      const std::string name = word->text.substr(0, equals);
      if (word->unknown) {
        assigned_.erase(name);
        if (is_export) leave_out(format("{}, since {} is not known here", name, *word->unknown));
        continue;
      }
      if (equals != std::string::npos) assigned_[name] = word->text.substr(equals + 1);
      if (is_export && assigned_.contains(name) && !is_torchs(name))
        run_.spec.env[name] = assigned_[name];
    }
    return true;
  }

  // Lockstep sets these for each rank.
  static bool is_torchs(const std::string& name) {
    return name == "MASTER_ADDR" || name == "MASTER_PORT" || name == "RANK" ||
           name == "WORLD_SIZE" || name == "LOCAL_RANK";
  }

  // module, venv, conda, cd.
  bool take_environment(const std::vector<ShellWord>& words) {
    const auto texts = known_texts(words);
    if (!texts) return false;
    const std::string& verb = texts->front();
    const auto size = texts->size();
    if (verb == "cd" && size == 2) {
      run_.spec.working_folder = texts->at(1);
    } else if ((verb == "module" && size > 2 && texts->at(1) == "load") ||
               (verb == "ml" && size > 1)) {
      if (!run_.spec.module) run_.spec.module.emplace();
      std::copy(texts->begin() + (verb == "ml" ? 1 : 2), texts->end(),
                std::back_inserter(*run_.spec.module));
    } else if (verb == "conda" && size == 3 && texts->at(1) == "activate") {
      run_.spec.conda = texts->at(2);
    } else if ((verb == "source" || verb == ".") && size == 2 &&
               texts->at(1).ends_with("/bin/activate")) {
      run_.spec.venv =
          texts->at(1).substr(0, texts->at(1).size() - std::string_view("/bin/activate").size());
    } else {
      return false;
    }
    return true;
  }

  // --- the run ---

  int nodes() const {
    if (request_.nodes) return std::max(1, *request_.nodes);
    if (request_.tasks && request_.tasks_per_node)
      return std::max(1, (*request_.tasks + *request_.tasks_per_node - 1) /
                             std::max(1, *request_.tasks_per_node));
    return 1;
  }

  std::optional<int> tasks_per_node() const {
    if (request_.tasks_per_node) return request_.tasks_per_node;
    if (request_.tasks) return std::max(1, *request_.tasks / nodes());
    return std::nullopt;
  }

  std::optional<int> gpus_per_node() const {
    if (request_.gpus_per_node) return request_.gpus_per_node;
    if (request_.gpus) return std::max(1, *request_.gpus / nodes());
    if (request_.gpus_per_task) return *request_.gpus_per_task * tasks_per_node().value_or(1);
    return std::nullopt;
  }

  ShellVariables variables() const {
    ShellVariables all = assigned_;
    const int per_node = tasks_per_node().value_or(1);
    const std::array<std::pair<const char*, int>, 6> known = {{
        {"SLURM_NNODES", nodes()},
        {"SLURM_JOB_NUM_NODES", nodes()},
        {"SLURM_NTASKS", request_.tasks.value_or(nodes() * per_node)},
        {"SLURM_NTASKS_PER_NODE", per_node},
        {"SLURM_GPUS_ON_NODE", gpus_per_node().value_or(0)},
        {"SLURM_CPUS_PER_TASK", request_.cores.value_or(1)},
    }};
    for (const auto& [name, value] : known) all.emplace(name, format("{}", value));
    all.emplace("SLURM_SUBMIT_DIR", ".");
    all.insert(environment_.begin(), environment_.end());
    return all;
  }

  Result<void> finish() {
    if (!program_.redirected.empty()) leave_out(program_.redirected + " (a run keeps its output)");
    std::vector<ShellWord> words = program_.words;
    if (has_srun_) words = TRY(without_srun(words));
    if (words.empty()) return wrong("srun names no program");
    model::RunSpec& spec = run_.spec;
    const std::optional<int> gpus = gpus_per_node();
    if (is_torchrun(words)) {
      TRY(apply_torchrun(words, gpus, run_));
      return set_needs(1);
    }
    spec.command = TRY(known_texts(words));
    spec.nodes = has_srun_ ? nodes() : 1;
    if (!has_srun_ && nodes() > 1)
      leave_out(format("--nodes {}: without srun the program runs on one", nodes()));
    const int tasks = has_srun_ ? tasks_per_node().value_or(1) : 1;
    spec.devices = std::max(tasks, gpus.value_or(tasks));
    if (spec.devices != tasks)
      leave_out(format("{} for each node: the run has one rank for each of {} GPUs",
                       tasks == 1 ? "one task" : format("{} tasks", tasks), spec.devices));
    return set_needs(tasks);
  }

  Result<void> set_needs(int tasks) {
    if (request_.cores) run_.spec.needs.cores = *request_.cores * tasks;
    if (gpus_per_node().value_or(0) > 0) run_.spec.needs.kind = map::DeviceKind::gpu;
    return {};
  }

  // Its options count as those of sbatch.
  Result<std::vector<ShellWord>> without_srun(const std::vector<ShellWord>& words) {
    std::size_t at = 1;
    while (at < words.size() && words[at].text.starts_with('-') && words[at].text != "--") {
      auto [option, value] = split_option(words[at].text);
      const bool is_unknown = words[at].unknown.has_value();
      ++at;
      if (srun_flags().contains(option)) continue;
      if (!value && at < words.size()) {
        value = words[at].text;
        if (!words[at++].unknown) TRY(take_option(option, *value, false));
      } else if (value && !is_unknown) {
        TRY(take_option(option, *value, false));
      }
    }
    if (at < words.size() && words[at].text == "--") ++at;
    return std::vector<ShellWord>(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  }

  const std::string name_;
  const ShellVariables& environment_;
  int line_ = 0;
  bool seen_command_ = false;  // options after the first command are comments, as for sbatch
  TakenRun run_;
  Request request_;
  ShellVariables assigned_;
  ShellLine program_;  // that starts the ranks
  std::optional<int> command_line_;
  bool has_srun_ = false;
};

}  // namespace

bool is_sbatch_script(std::string_view content) {
  return content.starts_with("#!") &&
         content.find(std::string("\n") + std::string(kDirective)) != std::string_view::npos;
}

Result<TakenRun> run_of_sbatch_script(std::string_view content, std::string_view name,
                                      const ShellVariables& environment) {
  return ScriptReader(name, environment).read(content);
}

// sbatch(1): minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes,
// days-hours:minutes:seconds.
Result<Duration> parse_slurm_time(std::string_view input) {
  const auto dash = input.find('-');
  const bool has_days = dash != std::string_view::npos;
  std::vector<int> parts;
  std::string_view rest = has_days ? input.substr(dash + 1) : input;
  for (;;) {
    const auto colon = std::min(rest.find(':'), rest.size());
    parts.push_back(TRY(whole_number("--time", rest.substr(0, colon))));
    if (colon == rest.size()) break;
    rest.remove_prefix(colon + 1);
  }
  if (parts.size() > 3) return wrong(format("--time {} has too many parts", input));
  // Hours first if there are days or three parts, else minutes first.
  if (!has_days && parts.size() < 3) parts.insert(parts.begin(), 0);
  parts.resize(3);
  const int days = has_days ? TRY(whole_number("--time", input.substr(0, dash))) : 0;
  const std::chrono::seconds all = std::chrono::days(days) + std::chrono::hours(parts[0]) +
                                   std::chrono::minutes(parts[1]) + std::chrono::seconds(parts[2]);
  if (all == std::chrono::seconds(0))
    return wrong("--time 0 is no limit, and each run has one: give it by --timeout");
  return Duration(all);
}

}  // namespace lockstep::job_files
