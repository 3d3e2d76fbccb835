#include "platform/engine/k8s/client/kubeconfig.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/os/files.h"
#include "net/base64.h"
#include "net/http/url.h"
#include "platform/engine/k8s/json_fields.h"
#include "text/convert.h"
#include "text/document.h"
#include "text/record.h"

namespace lockstep::engine {
namespace {

// The parts of a kubeconfig file that this client uses; it ignores the others, as kubectl does.
struct KubeCluster {
  std::string server, authority_file, authority_data, tls_server_name, proxy;
  bool is_unverified = false;

  static constexpr auto fields() {
    return record<KubeCluster>(
        required(field("server", &KubeCluster::server, "its URL")),
        field("certificate-authority", &KubeCluster::authority_file, "a file"),
        field("certificate-authority-data", &KubeCluster::authority_data, "base64"),
        field("tls-server-name", &KubeCluster::tls_server_name, "the name in its certificate"),
        field("proxy-url", &KubeCluster::proxy, "a proxy"),
        field("insecure-skip-tls-verify", &KubeCluster::is_unverified, "trust any certificate"));
  }
};

struct KubeVariable {
  std::string name, value;
  static constexpr auto fields() {
    return record<KubeVariable>(required(field("name", &KubeVariable::name, "of a variable")),
                                field("value", &KubeVariable::value, "its value"));
  }
};

struct KubeExec {
  std::string api_version, command, install_hint, interactive;
  std::vector<std::string> arguments;
  std::vector<KubeVariable> environment;
  bool wants_cluster = false;

  static constexpr auto fields() {
    return record<KubeExec>(
        required(field("apiVersion", &KubeExec::api_version, "of the credential")),
        required(field("command", &KubeExec::command, "a program")),
        field("args", &KubeExec::arguments, "its arguments"),
        field("env", &KubeExec::environment, "its further variables"),
        field("installHint", &KubeExec::install_hint, "for users without the program"),
        field("interactiveMode", &KubeExec::interactive, "Never, IfAvailable or Always"),
        field("provideClusterInfo", &KubeExec::wants_cluster, "tell it the cluster"));
  }
};

struct KubeUser {
  std::string token, token_file, certificate_file, certificate_data, key_file, key_data;
  std::string user_name;
  std::string as, as_uid;  // acts as another user
  std::vector<std::string> as_groups;
  std::map<std::string, std::vector<std::string>> as_extra;
  std::optional<KubeExec> exec;
  Json old_provider;

  static constexpr auto fields() {
    return record<KubeUser>(
        field("token", &KubeUser::token, "a bearer token"),
        field("tokenFile", &KubeUser::token_file, "a file with it"),
        field("client-certificate", &KubeUser::certificate_file, "a file"),
        field("client-certificate-data", &KubeUser::certificate_data, "base64"),
        field("client-key", &KubeUser::key_file, "a file"),
        field("client-key-data", &KubeUser::key_data, "base64"),
        field("username", &KubeUser::user_name, "for a password"),
        field("as", &KubeUser::as, "another user"), field("as-uid", &KubeUser::as_uid, "its id"),
        field("as-groups", &KubeUser::as_groups, "its groups"),
        field("as-user-extra", &KubeUser::as_extra, "its further attributes"),
        field("exec", &KubeUser::exec, "a program that prints a credential"),
        field("auth-provider", &KubeUser::old_provider, "an older form of exec"));
  }
};

struct KubeContext {
  std::string cluster, user, in_namespace;
  static constexpr auto fields() {
    return record<KubeContext>(required(field("cluster", &KubeContext::cluster, "its name")),
                               field("user", &KubeContext::user, "its name"),
                               field("namespace", &KubeContext::in_namespace, "the default"));
  }
};

struct NamedCluster {
  std::string name;
  KubeCluster value;
  static constexpr auto fields() {
    return record<NamedCluster>(required(field("name", &NamedCluster::name, "of the cluster")),
                                required(field("cluster", &NamedCluster::value, "it")));
  }
};
struct NamedUser {
  std::string name;
  KubeUser value;
  static constexpr auto fields() {
    return record<NamedUser>(required(field("name", &NamedUser::name, "of the user")),
                             required(field("user", &NamedUser::value, "it")));
  }
};
struct NamedContext {
  std::string name;
  KubeContext value;
  static constexpr auto fields() {
    return record<NamedContext>(required(field("name", &NamedContext::name, "of the context")),
                                required(field("context", &NamedContext::value, "it")));
  }
};

struct Kubeconfig {
  std::string current;
  std::vector<NamedCluster> clusters;
  std::vector<NamedUser> users;
  std::vector<NamedContext> contexts;
  std::filesystem::path file;

  static constexpr auto fields() {
    return record<Kubeconfig>(field("current-context", &Kubeconfig::current, "its name"),
                              field("clusters", &Kubeconfig::clusters, "by name"),
                              field("users", &Kubeconfig::users, "by name"),
                              field("contexts", &Kubeconfig::contexts, "by name"));
  }
};

Result<Kubeconfig> read_kubeconfig(const std::filesystem::path& file) {
  const Document document = TRY(parse_yaml(TRY(read_file(file)), file.string()));
  if (document.value.is_null()) {
    Kubeconfig empty;
    empty.file = file;
    return empty;
  }
  auto config = from_json<Kubeconfig>(without_nulls(document.value), UnknownFields::ignore);
  if (!config) return std::move(config).error().with_context(file.string());
  config->file = file;
  return config;
}

// An element of a list in the first file that has it, and the folder of that file.
template <class T>
struct Found {
  const T* value = nullptr;
  std::filesystem::path folder;
};
template <class List>
auto find_named(const std::vector<Kubeconfig>& files, List Kubeconfig::* list,
                const std::string& name) {
  using Value = decltype(List::value_type::value);
  for (const Kubeconfig& file : files)
    for (const auto& one : file.*list)
      if (one.name == name) return Found<Value>{&one.value, file.file.parent_path()};
  return Found<Value>{};
}

// A file is relative to its kubeconfig.
std::filesystem::path file_in(const std::filesystem::path& folder, const std::string& file) {
  return file.empty() ? std::filesystem::path() : folder / file;
}

// The data counts if both are there.
Result<TextOrFile> data_or_file(const std::string& data, const std::string& file,
                                const std::filesystem::path& folder, std::string_view field) {
  if (data.empty()) return TextOrFile{.text = {}, .file = file_in(folder, file)};
  std::string packed = data;
  std::erase_if(packed, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
  const auto bytes = net::from_base64(packed);
  if (!bytes) return Error{Code::invalid, format("{} is not base64", field)};
  return TextOrFile{
      .text = std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()), .file = {}};
}

Result<CredentialPlugin> plugin_of(const KubeExec& exec, const std::filesystem::path& folder) {
  constexpr std::string_view kGroup = "client.authentication.k8s.io/";
  if (exec.api_version != std::string(kGroup) + "v1" &&
      exec.api_version != std::string(kGroup) + "v1beta1")
    return Error{Code::invalid,
                 format("exec: {} is not supported; write {}v1", exec.api_version, kGroup)};
  if (exec.interactive == "Always")
    return Error{Code::invalid,
                 format("exec: {} needs a terminal (interactiveMode: Always), which a daemon does "
                        "not have",
                        exec.command)};
  CredentialPlugin plugin{.api_version = exec.api_version,
                          .command = {exec.command},
                          .environment = {},
                          .install_hint = exec.install_hint,
                          .wants_cluster = exec.wants_cluster};
  if (exec.command.find('/') != std::string::npos)
    plugin.command[0] = (folder / exec.command).string();
  std::ranges::copy(exec.arguments, std::back_inserter(plugin.command));
  for (const KubeVariable& one : exec.environment)
    plugin.environment.emplace_back(one.name, one.value);
  return plugin;
}

// For the providers that kubectl had.
std::string replacement_of(const std::string& provider) {
  if (provider == "gcp")
    return "install gke-gcloud-auth-plugin and run `gcloud container clusters get-credentials`";
  if (provider == "azure") return "install kubelogin and run `kubelogin convert-kubeconfig`";
  if (provider == "oidc") return "install kubectl-oidc_login and name it under `exec`";
  return "name a plugin under `exec`, or a token";
}

Result<void> check_is_supported(const KubeUser& user) {
  if (!user.old_provider.is_null()) {
    const std::string provider = text_of(user.old_provider, {"name"});
    return Error{Code::invalid, format("auth-provider {} is not supported, as in kubectl 1.26 and "
                                       "later: {}",
                                       provider, replacement_of(provider))};
  }
  if (!user.user_name.empty())
    return Error{Code::invalid,
                 "a user name with a password is not supported; use a token or a certificate"};
  if (user.as.empty() && !(user.as_uid.empty() && user.as_groups.empty() && user.as_extra.empty()))
    return Error{Code::invalid, "as-groups, as-uid and as-user-extra need `as`, a user's name"};
  return {};
}

// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
Result<void> add_impersonation(ClusterAccess& access, const KubeUser& user) {
  auto& headers = access.impersonation;
  if (!user.as.empty()) headers.emplace_back("Impersonate-User", user.as);
  if (!user.as_uid.empty()) headers.emplace_back("Impersonate-Uid", user.as_uid);
  for (const std::string& group : user.as_groups) headers.emplace_back("Impersonate-Group", group);
  for (const auto& [key, values] : user.as_extra)
    for (const std::string& value : values)
      headers.emplace_back("Impersonate-Extra-" + net::percent_encode(key), value);
  for (const auto& [name, value] : headers)
    if (std::ranges::any_of(value, [](unsigned char c) { return c < ' ' || c == 0x7f; }))
      return Error{Code::invalid, format("the value of {} has a control character", name)};
  return {};
}

Result<void> add_user(ClusterAccess& access, const KubeUser& user,
                      const std::filesystem::path& folder) {
  TRY(check_is_supported(user));
  access.token = {.text = user.token, .file = file_in(folder, user.token_file)};
  access.certificate = TRY(data_or_file(user.certificate_data, user.certificate_file, folder,
                                        "client-certificate-data"));
  access.key = TRY(data_or_file(user.key_data, user.key_file, folder, "client-key-data"));
  if (access.certificate.empty() != access.key.empty())
    return Error{Code::invalid, "client-certificate and client-key belong together"};
  if (user.exec) access.plugin = TRY(plugin_of(*user.exec, folder));
  TRY(add_impersonation(access, user));
  return {};
}

Result<void> add_cluster(ClusterAccess& access, const KubeCluster& cluster,
                         const std::filesystem::path& folder) {
  access.server = cluster.server;
  while (access.server.ends_with('/')) access.server.pop_back();
  if (!access.server.starts_with("https://") && !access.server.starts_with("http://"))
    return Error{Code::invalid,
                 format("the server '{}' is no URL such as https://10.0.0.1:6443", cluster.server)};
  access.authority = TRY(data_or_file(cluster.authority_data, cluster.authority_file, folder,
                                      "certificate-authority-data"));
  access.tls_server_name = cluster.tls_server_name;
  access.is_unverified = cluster.is_unverified;
  access.proxy = cluster.proxy;
  return {};
}

std::string file_names(const std::vector<Kubeconfig>& files) {
  std::string names;
  for (const Kubeconfig& one : files) names += (names.empty() ? "" : ", ") + one.file.string();
  return names;
}

Result<ClusterAccess> access_of_context(const std::vector<Kubeconfig>& files,
                                        const std::string& name) {
  const auto context = find_named(files, &Kubeconfig::contexts, name);
  if (context.value == nullptr)
    return Error{Code::not_found, format("there is no context '{}'; `kubectl config get-contexts` "
                                         "lists them",
                                         name)};
  const auto cluster = find_named(files, &Kubeconfig::clusters, context.value->cluster);
  if (cluster.value == nullptr)
    return Error{Code::not_found, format("the context '{}' names the cluster '{}', which does not "
                                         "exist",
                                         name, context.value->cluster)};
  ClusterAccess access;
  TRY(add_cluster(access, *cluster.value, cluster.folder));
  access.in_namespace = context.value->in_namespace;
  if (context.value->user.empty()) return access;
  const auto user = find_named(files, &Kubeconfig::users, context.value->user);
  if (user.value == nullptr)
    return Error{Code::not_found, format("the context '{}' names the user '{}', which does not "
                                         "exist",
                                         name, context.value->user)};
  TRY(add_user(access, *user.value, user.folder));
  return access;
}

Result<ClusterAccess> access_of_files(const std::vector<Kubeconfig>& files,
                                      const std::string& wanted) {
  std::string name = wanted;
  for (const Kubeconfig& file : files)
    if (name.empty()) name = file.current;
  const std::string names = file_names(files);
  if (name.empty())
    return Error{Code::invalid,
                 format("{}: no current context; choose one by --context NAME", names)};
  auto access = access_of_context(files, name);
  if (!access) return std::move(access).error().with_context(names);
  access->source = format("context '{}' of {}", name, names);
  if (!access->impersonation.empty())
    access->source += format(" as '{}'", access->impersonation.front().second);
  return access;
}

std::string value_of(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::vector<std::filesystem::path> kubeconfig_files(const Environment& environment) {
  std::vector<std::filesystem::path> files;
  const std::string list = value_of(environment, "KUBECONFIG");
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) files.push_back(std::filesystem::absolute(list.substr(begin, end - begin)));
    begin = end + 1;
  }
  const std::string home = value_of(environment, "HOME");
  if (list.empty() && !home.empty()) files.push_back(std::filesystem::path(home) / ".kube/config");
  return files;
}

// Those that exist: KUBECONFIG may name others.
Result<std::vector<Kubeconfig>> read_kubeconfigs(const AccessChoice& choice,
                                                 const Environment& environment) {
  if (!choice.kubeconfig.empty())
    return std::vector{TRY(read_kubeconfig(std::filesystem::absolute(choice.kubeconfig)))};
  std::vector<Kubeconfig> found;
  for (const auto& file : kubeconfig_files(environment)) {
    auto read = read_kubeconfig(file);
    if (read)
      found.push_back(*std::move(read));
    else if (read.error().code != Code::not_found)
      return std::move(read).error();
  }
  return found;
}

Result<ClusterAccess> access_of_pod(const AccessChoice& choice, const Environment& environment) {
  std::string host = value_of(environment, "KUBERNETES_SERVICE_HOST");
  const std::string port = value_of(environment, "KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty())
    return Error{Code::not_found,
                 "no kubeconfig file was found: give one by --kubeconfig FILE or KUBECONFIG"};
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  ClusterAccess access;
  access.server = format("https://{}:{}", host, port);
  access.authority.file = choice.service_account / "ca.crt";
  access.token.file = choice.service_account / "token";
  access.in_namespace = TRY(read_file(choice.service_account / "namespace", 4096));
  while (access.in_namespace.ends_with('\n')) access.in_namespace.pop_back();
  access.source = "the service account of this Pod";
  return access;
}

}  // namespace

Result<ClusterAccess> find_access(const AccessChoice& choice, const Environment& environment) {
  const auto files = TRY(read_kubeconfigs(choice, environment));
  if (!files.empty()) return access_of_files(files, choice.context);
  if (!choice.context.empty())
    return Error{Code::not_found,
                 format("there is no kubeconfig file with the context '{}'", choice.context)};
  return access_of_pod(choice, environment);
}

}  // namespace lockstep::engine
