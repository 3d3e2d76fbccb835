#include "platform/k8s/workload.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "platform/k8s/rank_environment.h"

namespace lockstep::k8s {
namespace {

// The longest end of a host name: that of a JobSet, "-node-0-INDEX".
std::size_t ending_of_hosts(int nodes) { return format("-node-0-{}", nodes - 1).size(); }

Result<void> check_variables(const KeyValues& env) {
  std::set<std::string> seen;
  for (const auto& [name, value] : env) {
    TRY(check_variable(name));
    if (sets_variable(name))
      return Error{Code::invalid, format("--env {}: the manifest sets this variable itself", name)};
    if (!seen.insert(name).second)
      return Error{Code::invalid, format("--env {} is given twice", name)};
  }
  return {};
}

Result<void> check_once(std::string_view option, const KeyValues& values) {
  std::set<std::string> seen;
  for (const auto& [key, value] : values)
    if (!seen.insert(key).second)
      return Error{Code::invalid, format("{} {} is given twice", option, key)};
  return {};
}

Result<void> check_ports(const Workload& workload) {
  std::set<int> seen = {workload.master_port};
  for (int port : workload.ports)
    if (!seen.insert(port).second)
      return Error{Code::invalid,
                   format("--port {} is given twice, or is the port of --master-port", port)};
  return {};
}

Result<void> check_mounts(const Workload& workload) {
  std::set<std::string> seen;
  if (!workload.shared_memory.empty()) seen.insert("/dev/shm");
  for (const Volume& volume : workload.volumes)
    if (!seen.insert(volume.path).second)
      return Error{Code::invalid, format("--volume: {} is mounted twice", volume.path)};
  return {};
}

}  // namespace

Result<void> check_image(std::string_view option, std::string_view image) {
  if (std::ranges::all_of(image, [](char c) { return c > ' ' && c <= '~'; })) return {};
  return Error{Code::invalid, format("{} '{}': write an image without blanks, such as "
                                     "pytorch/pytorch:latest",
                                     option, image)};
}

Result<void> check(const Workload& workload) {
  auto named = check_dns_label(workload.name, 63 - ending_of_hosts(workload.nodes));
  if (!named) return std::move(named).error().with_context("--name");
  TRY(check_image("--image", workload.image));
  if (workload.timeout == Duration(0))
    return Error{Code::invalid, "--timeout 0s would end the Job at its start; write a longer time"};
  TRY(check_variables(workload.env));
  TRY(check_once("--label", workload.labels));
  TRY(check_once("--annotation", workload.annotations));
  TRY(check_once("--node-selector", workload.node_selector));
  TRY(check_ports(workload));
  return check_mounts(workload);
}

std::string literal(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : ' ';
    if (text[i] == '$' && (next == '$' || next == '(')) result += '$';
  }
  return result;
}

Result<std::string> with_parameters(std::string command, const KeyValues& parameters) {
  for (const auto& [name, value] : parameters) {
    const std::string place = "{" + name + "}";
    std::size_t at = command.find(place);
    if (at == std::string::npos)
      return Error{Code::invalid, format("--param {}: the command has no {}", name, place)};
    for (; at != std::string::npos; at = command.find(place, at + value.size()))
      command.replace(at, place.size(), value);
  }
  return command;
}

}  // namespace lockstep::k8s
