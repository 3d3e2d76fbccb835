#include "platform/job_files/kubernetes_job.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/format.h"
#include "platform/job_files/shell_line.h"
#include "platform/job_files/torchrun_command.h"
#include "text/document.h"

namespace lockstep::job_files {
namespace {

Error wrong_file(std::string message) { return {Code::invalid, std::move(message)}; }

bool has_line(std::string_view content, std::string_view start) {
  return content.starts_with(start) ||
         content.find("\n" + std::string(start)) != std::string_view::npos;
}

// The documents between lines `---`, each with empty lines before it, so that its lines have their
// numbers in the file.
std::vector<std::string> documents_of(std::string_view content) {
  std::vector<std::string> documents(1);
  std::size_t lines = 0;
  while (!content.empty()) {
    const auto end = std::min(content.find('\n'), content.size() - 1);
    const std::string_view line = content.substr(0, end + 1);
    ++lines;
    if (line.starts_with("---"))
      documents.emplace_back(lines, '\n');
    else
      documents.back() += line;
    content.remove_prefix(end + 1);
  }
  return documents;
}

// cpu: "8", "500m", 2.5; rounded up.
Result<int> cores_of(const Json& value) {
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  const bool is_milli = text.ends_with('m');
  if (is_milli) text.pop_back();
  double number = 0;
  const auto* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc() || stop != end || !(number >= 0) || number > 1e8)
    return wrong_file(format("cpu: expected a number of cores, got {}", value.dump()));
  return static_cast<int>(std::ceil(is_milli ? number / 1000 : number));
}

// memory: "64Gi", "64G", 1024.
Result<Bytes> memory_of(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  const auto unit = text.find_first_not_of("0123456789.");
  if (unit == std::string::npos) return parse_bytes(text + " B");
  const std::string letters = text.substr(unit) == "k" ? "K" : text.substr(unit);
  return parse_bytes(format("{} {}B", text.substr(0, unit), letters));
}

class JobReader {
 public:
  explicit JobReader(const Document& document) : document_(document) {}

  Result<TakenRun> read() {
    const Json& root = document_.value;
    const std::string kind = root.value("kind", "");
    take_metadata(root);
    ignore(root, "", {"apiVersion", "kind", "metadata", "spec", "status"});
    const Json& spec = at(root, "spec");
    if (kind == "Pod") {
      TRY(take_pod(spec, "/spec"));
    } else {
      TRY(take_job(spec));
      TRY(take_pod(at(at(spec, "template"), "spec"), "/spec/template/spec"));
    }
    TRY(take_torchrun());
    return std::move(run_);
  }

 private:
  static const Json& at(const Json& value, const char* name) {
    static const Json none;
    if (!value.is_object()) return none;
    const auto found = value.find(name);
    return found == value.end() ? none : *found;
  }

  Error error_at(const std::string& path, std::string_view what) const {
    return wrong_file(format("{}:{}: {}: {}", document_.name, document_.line_of(path).value_or(1),
                             path.substr(path.rfind('/') + 1), what));
  }

  void leave_out(const std::string& path, std::string_view why = "") {
    run_.left_out.push_back(format("line {}: {}{}{}", document_.line_of(path).value_or(1),
                                   path.substr(1), why.empty() ? "" : ": ", why));
  }

  // Names each field that has no place in the run.
  void ignore(const Json& value, const std::string& path, const std::set<std::string>& used) {
    if (!value.is_object()) return;
    for (const auto& [name, unused] : value.items())
      if (!used.contains(name)) leave_out(path + "/" + name);
  }

  void take_metadata(const Json& root) {
    const Json& metadata = at(root, "metadata");
    if (at(metadata, "name").is_string())
      run_.spec.name = at(metadata, "name").get<std::string>();
    else if (at(metadata, "generateName").is_string())
      run_.spec.name = at(metadata, "generateName").get<std::string>();
    while (run_.spec.name.ends_with('-')) run_.spec.name.pop_back();
  }

  Result<int> number_at(const Json& value, const char* name, const std::string& path,
                        int otherwise) const {
    const Json& found = at(value, name);
    if (found.is_null()) return otherwise;
    if (!found.is_number_integer()) return error_at(path + "/" + name, "expected an integer");
    return found.get<int>();
  }

  Result<void> take_job(const Json& spec) {
    const int parallelism = TRY(number_at(spec, "parallelism", "/spec", 1));
    const int completions = TRY(number_at(spec, "completions", "/spec", parallelism));
    if (completions != parallelism)
      return error_at("/spec/completions",
                      format("{} is not parallelism ({}): all nodes of a run start together",
                             completions, parallelism));
    run_.spec.nodes = parallelism;
    run_.spec.retries = TRY(number_at(spec, "backoffLimit", "/spec", 0));
    const int limit = TRY(number_at(spec, "activeDeadlineSeconds", "/spec", 0));
    if (limit > 0) run_.spec.timeout = std::chrono::seconds(limit);
    ignore(spec, "/spec",
           {"parallelism", "completions", "completionMode", "backoffLimit", "template",
            "activeDeadlineSeconds", "ttlSecondsAfterFinished"});
    return {};
  }

  Result<void> take_pod(const Json& pod, const std::string& path) {
    const Json& containers = at(pod, "containers");
    if (!containers.is_array() || containers.empty()) return error_at(path, "it has no containers");
    for (std::size_t other = 1; other < containers.size(); ++other)
      leave_out(format("{}/containers/{}", path, other));
    const Json& selector = at(pod, "nodeSelector");
    for (const auto& [name, value] : selector.items()) {
      if (!run_.spec.needs.labels) run_.spec.needs.labels.emplace();
      if (value.is_string()) (*run_.spec.needs.labels)[name] = value.get<std::string>();
    }
    ignore(pod, path,
           {"containers", "nodeSelector", "restartPolicy", "volumes", "subdomain", "hostname"});
    TRY(take_container(containers[0], path + "/containers/0"));
    take_volumes(at(pod, "volumes"), at(containers[0], "volumeMounts"), path);
    return {};
  }

  Result<void> take_container(const Json& container, const std::string& path) {
    for (const char* name : {"command", "args"}) {
      const Json& words = at(container, name);
      for (std::size_t i = 0; words.is_array() && i < words.size(); ++i) {
        if (!words[i].is_string())
          return error_at(format("{}/{}/{}", path, name, i), "expected text; quote it");
        run_.spec.command.push_back(words[i].get<std::string>());
      }
    }
    if (run_.spec.command.empty())
      return error_at(path, "it names no command, and the image's own is not known here");
    if (at(container, "image").is_string())
      run_.spec.image = at(container, "image").get<std::string>();
    if (!at(container, "workingDir").is_null())
      leave_out(path + "/workingDir", "ranks start in the working folder of the run");
    TRY(take_environment(at(container, "env"), path + "/env"));
    TRY(take_resources(at(container, "resources"), path + "/resources"));
    ignore(container, path,
           {"name", "command", "args", "image", "workingDir", "env", "resources", "volumeMounts"});
    return {};
  }

  Result<void> take_environment(const Json& env, const std::string& path) {
    for (std::size_t i = 0; env.is_array() && i < env.size(); ++i) {
      const std::string place = format("{}/{}", path, i);
      const Json& name = at(env[i], "name");
      if (!name.is_string()) return error_at(place, "it has no name");
      if (at(env[i], "value").is_string())
        run_.spec.env[name.get<std::string>()] = at(env[i], "value").get<std::string>();
      else
        leave_out(place, name.get<std::string>() + " has no value in the file");
    }
    return {};
  }

  Result<void> take_resources(const Json& resources, const std::string& path) {
    const Json& limits = at(resources, "limits");
    const Json& requests = at(resources, "requests");
    for (const auto& [name, value] : limits.items()) {
      if (!name.ends_with("/gpu")) continue;
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      int gpus = 0;
      if (std::from_chars(text.data(), text.data() + text.size(), gpus).ec != std::errc() ||
          gpus < 1)
        return error_at(path + "/limits", format("{}: expected a number, got {}", name, text));
      run_.spec.devices = gpus;
      run_.spec.needs.kind = map::DeviceKind::gpu;
    }
    for (const Json* one : {&limits, &requests}) {  // requests last: they count
      if (!at(*one, "cpu").is_null()) run_.spec.needs.cores = TRY(cores_of(at(*one, "cpu")));
      if (!at(*one, "memory").is_null())
        run_.spec.needs.memory = TRY(memory_of(at(*one, "memory")));
    }
    return {};
  }

  // A folder of the host at the same path; everything else is left out.
  void take_volumes(const Json& volumes, const Json& mounted, const std::string& path) {
    for (std::size_t i = 0; volumes.is_array() && i < volumes.size(); ++i) {
      const Json& host_path = at(at(volumes[i], "hostPath"), "path");
      bool is_same = false;
      for (std::size_t m = 0; mounted.is_array() && m < mounted.size(); ++m)
        is_same |= at(mounted[m], "name") == at(volumes[i], "name") && host_path.is_string() &&
                   at(mounted[m], "mountPath") == host_path;
      if (!is_same) {
        leave_out(format("{}/volumes/{}", path, i));
        continue;
      }
      if (!run_.spec.mounts) run_.spec.mounts.emplace();
      run_.spec.mounts->push_back(host_path.get<std::string>());
    }
  }

  // Also behind a shell that starts this one command.
  Result<void> take_torchrun() {
    const auto& command = run_.spec.command;
    std::vector<ShellWord> words = as_words(command);
    const bool has_shell = command.size() == 3 && command[1].starts_with("-") &&
                           command[1].ends_with("c") && command[0].ends_with("sh");
    if (has_shell) {
      auto line = parse_shell_line(command[2], {});
      if (!line) {
        if (command[2].find("torchrun") == std::string::npos) return {};
        return wrong_file(
            format("{}: the shell command starts torchrun among others ({}); write "
                   "torchrun alone",
                   document_.name, line.error().message));
      }
      words = std::move(line->words);
    }
    if (!is_torchrun(words)) return {};
    const int nodes = run_.spec.nodes;
    TRY(apply_torchrun(words, run_.spec.devices, run_));
    run_.spec.nodes = nodes;
    return {};
  }

  const Document& document_;
  TakenRun run_;
};

}  // namespace

bool is_kubernetes_file(std::string_view content) {
  return has_line(content, "apiVersion:") && has_line(content, "kind:");
}

Result<TakenRun> run_of_kubernetes_file(std::string_view content, std::string_view name) {
  std::optional<TakenRun> taken;
  std::vector<std::string> others;
  for (const std::string& text : documents_of(content)) {
    const Document document = TRY(parse_yaml(text, name));
    if (!document.value.is_object()) continue;
    const std::string kind = document.value.contains("kind") && document.value["kind"].is_string()
                                 ? document.value["kind"].get<std::string>()
                                 : "";
    if (kind != "Job" && kind != "Pod") {
      others.push_back(format("the {}", kind.empty() ? "part without a kind" : kind));
      continue;
    }
    if (taken) return wrong_file(format("{}: it has more than one Job or Pod", name));
    taken = TRY(JobReader(document).read());
  }
  if (!taken)
    return wrong_file(
        format("{}: it has no Job or Pod; `lockstep run` takes no other kinds", name));
  taken->left_out.insert(taken->left_out.end(), others.begin(), others.end());
  return *std::move(taken);
}

}  // namespace lockstep::job_files
