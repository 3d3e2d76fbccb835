#include "platform/engine/k8s/client/kubeconfig.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr auto kConfig = R"(
apiVersion: v1
kind: Config
preferences: {}
current-context: work
clusters:
- name: c1
  cluster: {server: "https://10.0.0.1:6443/", certificate-authority-data: Q0E=, tls-server-name: k8s}
- name: c2
  cluster: {server: "https://two", insecure-skip-tls-verify: true, proxy-url: "http://proxy:3128"}
users:
- name: u1
  user: {token: t1}
- name: u2
  user: {client-certificate: certs/me.crt, client-key-data: S0VZ}
contexts:
- name: work
  context: {cluster: c1, user: u1, namespace: ml}
- name: home
  context: {cluster: c2, user: u2}
)";

class KubeconfigFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    EXPECT_TRUE(write_file(folder_ / name, content));
    return folder_ / name;
  }
  Result<ClusterAccess> of_user(const std::string& user) {
    const std::string file = write("one",
                                   "current-context: a\n"
                                   "clusters: [{name: c, cluster: {server: 'https://one'}}]\n"
                                   "contexts: [{name: a, context: {cluster: c, user: u}}]\n"
                                   "users: [{name: u, user: " +
                                       user + "}]\n");
    return find_access({.kubeconfig = file}, {});
  }

  const TemporaryFolder folder_;
};

TEST_F(KubeconfigFiles, TheCurrentContextNamesClusterUserAndNamespace) {
  const std::string file = write("config", kConfig);
  const auto access = find_access({.kubeconfig = file}, {});
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_EQ(access->server, "https://10.0.0.1:6443");
  EXPECT_EQ(access->authority.text, "CA");
  EXPECT_EQ(access->tls_server_name, "k8s");
  EXPECT_EQ(access->token.text, "t1");
  EXPECT_EQ(access->in_namespace, "ml");
  EXPECT_EQ(access->source, "context 'work' of " + file);
}

TEST_F(KubeconfigFiles, FilesAreRelativeToTheKubeconfig) {
  const auto access = find_access({.kubeconfig = write("config", kConfig), .context = "home"}, {});
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_TRUE(access->is_unverified);
  EXPECT_EQ(access->proxy, "http://proxy:3128");
  EXPECT_EQ(access->certificate.file, folder_ / "certs/me.crt");
  EXPECT_EQ(access->key.text, "KEY");
  EXPECT_EQ(access->in_namespace, "");
}

TEST_F(KubeconfigFiles, TheFirstOfSeveralFilesCountsAndOneMayBeMissing) {
  const std::string first =
      write("first", "users: [{name: u1, user: {token: other}}]\ncontexts: null\n");
  const std::string second = write("second", kConfig);
  const auto access =
      find_access({}, {{"KUBECONFIG", first + ":" + (folder_ / "none").string() + ":" + second}});
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_EQ(access->token.text, "other");
  EXPECT_EQ(access->server, "https://10.0.0.1:6443");
}

TEST_F(KubeconfigFiles, TheFileOfTheHomeFolderCountsWithoutTheVariable) {
  ASSERT_TRUE(make_folders(folder_ / ".kube"));
  write(".kube/config", kConfig);
  EXPECT_EQ(find_access({}, {{"HOME", folder_.path()}})->token.text, "t1");
}

TEST_F(KubeconfigFiles, AContextThatIsMissingIsNamed) {
  const auto access = find_access({.kubeconfig = write("config", kConfig), .context = "moon"}, {});
  EXPECT_EQ(access.error().code, Code::not_found);
  EXPECT_THAT(access.error().message, HasSubstr("there is no context 'moon'"));
}

TEST_F(KubeconfigFiles, APluginHasItsArgumentsAndVariables) {
  const auto access = of_user(
      "{exec: {apiVersion: client.authentication.k8s.io/v1, command: bin/login, args: [-n, x], "
      "env: [{name: A, value: b}], interactiveMode: IfAvailable, provideClusterInfo: true}}");
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_THAT(access->plugin->command, ElementsAre((folder_ / "bin/login").string(), "-n", "x"));
  EXPECT_THAT(access->plugin->environment, ElementsAre(Pair("A", "b")));
  EXPECT_TRUE(access->plugin->wants_cluster);
}

TEST_F(KubeconfigFiles, AUserThatActsAsAnotherHasTheHeadersForIt) {
  const auto access = of_user(
      "{token: t, as: ann, as-uid: '7', as-groups: [ml, ops], as-user-extra: {a/b: [x, y]}}");
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_THAT(
      access->impersonation,
      ElementsAre(Pair("Impersonate-User", "ann"), Pair("Impersonate-Uid", "7"),
                  Pair("Impersonate-Group", "ml"), Pair("Impersonate-Group", "ops"),
                  Pair("Impersonate-Extra-a%2Fb", "x"), Pair("Impersonate-Extra-a%2Fb", "y")));
  EXPECT_THAT(access->source, HasSubstr(" as 'ann'"));
}

TEST_F(KubeconfigFiles, FormsOfUsersThatAreNotSupportedAreRefused) {
  for (const auto& [user, words] :
       {std::pair("{exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}}",
                  "v1alpha1 is not supported"),
        {"{exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: "
         "Always}}",
         "needs a terminal"},
        {"{auth-provider: {name: gcp}}", "auth-provider gcp is not supported"},
        {"{auth-provider: {name: gcp}}", "install gke-gcloud-auth-plugin"},
        {"{auth-provider: {name: azure}}", "kubelogin convert-kubeconfig"},
        {"{auth-provider: {name: x}}", "name a plugin under `exec`"},
        {"{token: t, as-groups: [ml]}", "need `as`"},
        {"{token: t, as: \"a\\nb\"}", "Impersonate-User has a control character"},
        {"{username: me, password: secret}", "a user name with a password"},
        {"{client-certificate-data: Q0E=}", "belong together"},
        {"{client-certificate-data: '%', client-key-data: S0VZ}", "is not base64"}}) {
    const auto access = of_user(user);
    ASSERT_FALSE(access) << user;
    EXPECT_THAT(access.error().message, HasSubstr(words));
  }
}

TEST_F(KubeconfigFiles, APodWithoutAFileUsesItsServiceAccount) {
  write("namespace", "ml\n");
  write("token", "t");
  write("ca.crt", "CA");
  const Environment pod = {{"KUBERNETES_SERVICE_HOST", "fd00::1"},
                           {"KUBERNETES_SERVICE_PORT", "443"}};
  const auto access = find_access({.service_account = folder_}, pod);
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_EQ(access->server, "https://[fd00::1]:443");
  EXPECT_EQ(access->in_namespace, "ml");
  EXPECT_EQ(*access->token.read(), "t");
  EXPECT_EQ(*access->authority.read(), "CA");
}

TEST_F(KubeconfigFiles, WithoutAFileOrAPodTheErrorSaysHowToGiveOne) {
  const auto access = find_access({}, {{"HOME", folder_.path()}});
  EXPECT_EQ(access.error().code, Code::not_found);
  EXPECT_THAT(access.error().message, HasSubstr("--kubeconfig FILE"));
}

}  // namespace
}  // namespace lockstep::engine
