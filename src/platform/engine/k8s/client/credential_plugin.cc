#include "platform/engine/k8s/client/credential_plugin.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "base/format.h"
#include "base/os/environment.h"
#include "base/os/run_program.h"
#include "net/base64.h"
#include "text/convert.h"
#include "text/json.h"
#include "text/record.h"

namespace lockstep::engine {
namespace {

constexpr Duration kPluginLimit = std::chrono::minutes(1);
constexpr std::size_t kPluginWordsMax = 400;

struct PrintedStatus {
  std::string token, certificate, key, expires;
  static constexpr auto fields() {
    return record<PrintedStatus>(
        field("token", &PrintedStatus::token, "a bearer token"),
        field("clientCertificateData", &PrintedStatus::certificate, "PEM"),
        field("clientKeyData", &PrintedStatus::key, "PEM"),
        field("expirationTimestamp", &PrintedStatus::expires, "the end of both"));
  }
};

struct PrintedCredential {
  std::string kind, api_version;
  PrintedStatus status;
  static constexpr auto fields() {
    return record<PrintedCredential>(
        required(field("kind", &PrintedCredential::kind, "ExecCredential")),
        required(field("apiVersion", &PrintedCredential::api_version, "of the credential")),
        required(field("status", &PrintedCredential::status, "the credential")));
  }
};

Json cluster_info(const ClusterAccess& access, const std::string& authority) {
  Json cluster = {{"server", access.server}};
  if (!access.tls_server_name.empty()) cluster["tls-server-name"] = access.tls_server_name;
  if (access.is_unverified) cluster["insecure-skip-tls-verify"] = true;
  if (!access.proxy.empty()) cluster["proxy-url"] = access.proxy;
  if (!authority.empty())
    cluster["certificate-authority-data"] =
        net::to_base64(std::as_bytes(std::span(authority.data(), authority.size())));
  return cluster;
}

Environment plugin_environment(const ClusterAccess& access, const std::string& authority) {
  const CredentialPlugin& plugin = *access.plugin;
  Json spec = {{"interactive", false}};
  if (plugin.wants_cluster) spec["cluster"] = cluster_info(access, authority);
  Environment environment = own_environment();
  for (const auto& [name, value] : plugin.environment) environment[name] = value;
  environment["KUBERNETES_EXEC_INFO"] =
      dump_json({{"kind", "ExecCredential"}, {"apiVersion", plugin.api_version}, {"spec", spec}});
  return environment;
}

std::string on_one_line(std::string words) {
  words.resize(std::min(words.size(), kPluginWordsMax));
  std::ranges::replace(words, '\n', ' ');
  return words;
}

}  // namespace

Result<PluginCredential> parse_credential(std::string_view output, const std::string& api_version) {
  const auto wrong = [](std::string_view why) {
    return Error{Code::invalid, format("it printed no credential: {}", why)};
  };
  const auto json = parse_json(output);
  if (!json) return wrong("the output is not JSON");
  const auto printed = from_json<PrintedCredential>(without_nulls(*json), UnknownFields::ignore);
  if (!printed) return wrong("a field of ExecCredential is missing, or has another type");
  if (printed->kind != "ExecCredential" || printed->api_version != api_version)
    return wrong(format("it is {} {}, and not ExecCredential {}", printed->kind,
                        printed->api_version, api_version));
  const PrintedStatus& status = printed->status;
  if (status.certificate.empty() != status.key.empty())
    return wrong("clientCertificateData and clientKeyData belong together");
  if (status.token.empty() && status.certificate.empty())
    return wrong("it has neither a token nor a certificate");
  PluginCredential credential{.token = status.token,
                              .certificate = status.certificate,
                              .key = status.key,
                              .expires = std::nullopt};
  if (!status.expires.empty()) {
    auto expires = parse_time(status.expires);
    if (!expires) return wrong("its expirationTimestamp is no time");
    credential.expires = *expires;
  }
  return credential;
}

Result<PluginCredential> call_plugin(const ClusterAccess& access, const std::string& authority) {
  const CredentialPlugin& plugin = *access.plugin;
  const std::string& name = plugin.command[0];
  const auto ended = run_program(plugin.command, kPluginLimit,
                                 plugin_environment(access, authority), StandardError::separate);
  if (!ended && ended.error().code == Code::not_found)
    return Error{
        Code::not_found,
        format("there is no credential plugin {}{}", name,
               plugin.install_hint.empty() ? "" : ": " + on_one_line(plugin.install_hint))};
  if (!ended) return ended.error();
  if (ended->status != 0)
    return Error{Code::denied, format("the credential plugin {} ended with {}: {}", name,
                                      ended->status, on_one_line(ended->errors))};
  auto credential = parse_credential(ended->output, plugin.api_version);
  if (!credential)
    return std::move(credential).error().with_context("the credential plugin " + name);
  return credential;
}

}  // namespace lockstep::engine
