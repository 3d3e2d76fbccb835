// The commands that prepare software environments, and the scripts as shells run them: with venvs,
// conda environments, modules and images that are made of a few files here.
#include "platform/agent/software/preparation.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "platform/agent/software/software_preparation.h"

namespace lockstep::agent {
namespace {

using model::ImageRuntime;
using model::SoftwareKind;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

host::LaunchSpec image_launch(std::string image, ImageRuntime runtime) {
  host::LaunchSpec launch;
  launch.node = "demo/1.2/0";
  launch.devices = {2, 3};
  launch.working_folder = "/home/ann/train";
  launch.checkpoint_folder = "/shared/checkpoints/demo/1";
  launch.node_folder = "/home/ann/.lockstep/runs/node-0";
  launch.secret = "s3cr3t";
  launch.token = "t0k3n";
  launch.env = {{"API_KEY", "k3y"}};
  launch.software = {.kind = SoftwareKind::image,
                     .name = std::move(image),
                     .runtime = runtime,
                     .mounts = {"/data", "/shared/checkpoints/demo/1"}};
  return launch;
}

// With NUL for each '|'.
std::string parts(std::string text) {
  std::ranges::replace(text, '|', '\0');
  return text;
}

// --- Golden command lines ---

// Without the script, whose arguments follow it.
std::vector<std::string> arguments_of(const host::LaunchSpec& launch,
                                      const PreparationSetting& setting) {
  auto command = preparation_command(launch, setting);
  EXPECT_THAT(std::vector(command.begin(), command.begin() + 2), ElementsAre("sh", "-c"));
  return {command.begin() + 4, command.end()};
}

TEST(Preparation, PodmanHoldsTheFilesOfAnImageForTheUser) {
  const PreparationSetting setting{
      .socket_folder = "/run/user/1000/lockstep-1000-ab12", .user = 1000, .group = 100};
  EXPECT_THAT(
      arguments_of(image_launch("localhost/train:2", ImageRuntime::podman), setting),
      ElementsAre("lockstep-1000-ab12", "localhost/train:2", "/shared/checkpoints/demo/1", "podman",
                  "run", "--detach", "--rm", "--pull=never", "--name=lockstep-1000-ab12",
                  "--label=lockstep.node=demo/1.2/0", "--log-driver=none", "--no-healthcheck",
                  "--env=LOCKSTEP_HOLD=1", "--network=host", "--pid=host",
                  "--security-opt=label=disable", "--user=1000:100", "--userns=keep-id",
                  "--mount=type=bind,source=/dev/shm,destination=/dev/shm",
                  "--mount=type=bind,source=/home/ann/train,destination=/home/ann/train",
                  "--mount=type=bind,source=/shared/checkpoints/demo/1,"
                  "destination=/shared/checkpoints/demo/1",
                  "--mount=type=bind,source=/home/ann/.lockstep/runs/node-0,"
                  "destination=/home/ann/.lockstep/runs/node-0",
                  "--mount=type=bind,source=/run/user/1000/lockstep-1000-ab12,"
                  "destination=/run/user/1000/lockstep-1000-ab12",
                  "--mount=type=bind,source=/data,destination=/data", "--entrypoint=/bin/sh",
                  "localhost/train:2", "-c", R"(exec 3<>"$0" 4<"$0" 3>&-; read -r _ <&4)",
                  "/run/user/1000/lockstep-1000-ab12/hold"));
}

TEST(Preparation, PodmanGetsTheGpusOfTheNodeAndTheAdaptersOfTheHost) {
  auto launch = image_launch("train", ImageRuntime::podman);
  launch.gpus = true;
  const PreparationSetting setting{.socket_folder = "/tmp/s", .has_infiniband = true};
  EXPECT_THAT(arguments_of(launch, setting),
              AllOf(Contains("--device=nvidia.com/gpu=2"), Contains("--device=nvidia.com/gpu=3"),
                    Contains("--device=/dev/infiniband"), Contains("--user=0:0"),
                    Not(Contains("--userns=keep-id"))));
  launch.device_uuids = {"GPU-a", "GPU-b"};
  EXPECT_THAT(arguments_of(launch, setting), AllOf(Contains("--device=nvidia.com/gpu=GPU-a"),
                                                   Contains("--device=nvidia.com/gpu=GPU-b"),
                                                   Not(Contains("--device=nvidia.com/gpu=2"))));
  launch.env["CUDA_VISIBLE_DEVICES"] = "";
  EXPECT_THAT(arguments_of(launch, setting), Not(Contains(HasSubstr("nvidia.com"))));
}

TEST(Preparation, FoldersWithCommasAndQuotesAreMounted) {
  auto launch = image_launch("train", ImageRuntime::podman);
  launch.working_folder = "/a,\"b\"";
  EXPECT_THAT(arguments_of(launch, {.socket_folder = "/tmp/s"}),
              Contains(R"(--mount=type=bind,"source=/a,""b""","destination=/a,""b""")"));
}

TEST(Preparation, NothingOfTheRunThatMayBeSecretGetsToPodman) {
  const auto launch = image_launch("train", ImageRuntime::podman);
  const std::string command = joined(preparation_command(launch, {.socket_folder = "/tmp/s"}), " ");
  for (const char* secret : {"s3cr3t", "t0k3n", "k3y"})
    EXPECT_THAT(command, Not(HasSubstr(secret)));
  const Environment own = {{"PATH", "/bin"}, {"LOCKSTEP_NODE_TOKEN", "x"}};
  EXPECT_EQ(preparation_variables(launch, own, {{"API_KEY", "k3y"}}),
            (Environment{{"PATH", "/bin"}}));
}

TEST(Preparation, ApptainerStartsEachRankInTheImage) {
  auto launch = image_launch("/images/train.sif", ImageRuntime::apptainer);
  launch.gpus = true;
  const std::string output = parts("|lockstep-environment|PATH=/bin|A=b|lockstep-end|");
  const auto prepared =
      prepared_software(output, launch, {.socket_folder = "/tmp/lockstep-0-ab12"}, {}).value();
  EXPECT_THAT(
      prepared.wrapper,
      ElementsAre("apptainer", "exec", "--pwd=/home/ann/train", "--bind=/home/ann/train",
                  "--bind=/shared/checkpoints/demo/1", "--bind=/home/ann/.lockstep/runs/node-0",
                  "--bind=/tmp/lockstep-0-ab12", "--bind=/data", "--nv", "/images/train.sif"));
  EXPECT_EQ(prepared.container, 0);
  EXPECT_EQ(prepared.variables.at("A"), "b");
}

// --- Variables in an image ---

// variables: with '|' at the end of each.
std::string podman_output(const std::string& variables) {
  return parts("|lockstep-environment|LOCKSTEP_CONTAINER=77|" + variables + "lockstep-end|");
}

TEST(Preparation, AnImageHasItsOwnProgramsAndTheNetworkSettingsOfTheHost) {
  const auto launch = image_launch("train", ImageRuntime::podman);
  const std::string image = "PATH=/opt/bin|HOME=/root|CUDA_VERSION=12|HOSTNAME=c|";
  const Environment user = {{"PATH", "/usr/bin"},     {"HOME", "/home/ann"},
                            {"TERM", "dumb"},         {"CUDA_HOME", "/cuda"},
                            {"USER", "ann"},          {"NCCL_IB_HCA", "mlx5"},
                            {"LD_LIBRARY_PATH", "/l"}};
  const PreparationSetting setting{.socket_folder = "/tmp/s", .user = 1000};
  const auto prepared = prepared_software(podman_output(image), launch, setting, user).value();
  EXPECT_EQ(prepared.container, 77);
  EXPECT_EQ(prepared.variables, (Environment{{"PATH", "/opt/bin"},
                                             {"HOME", "/tmp"},
                                             {"TERM", "dumb"},
                                             {"CUDA_VERSION", "12"},
                                             {"USER", "ann"},
                                             {"NCCL_IB_HCA", "mlx5"},
                                             {"API_KEY", "k3y"}}));
}

TEST(Preparation, TheHomeFolderInAnImageIsThatOfTheHostIfTheImageHasIt) {
  auto launch = image_launch("train", ImageRuntime::podman);
  const std::string image = "HOME=/root|";
  const Environment user = {{"HOME", "/home/ann"}};
  const auto home = [&](uid_t id) {
    return prepared_software(podman_output(image), launch, {.socket_folder = "/s", .user = id},
                             user)
        .value()
        .variables.at("HOME");
  };
  EXPECT_EQ(home(1000), "/tmp");
  EXPECT_EQ(home(0), "/root");
  launch.software->mounts = {"/home"};
  EXPECT_EQ(home(1000), "/home/ann");
  launch.env["HOME"] = "/data/home";
  EXPECT_EQ(home(1000), "/data/home");
}

// --- The output of scripts ---

TEST(Preparation, OutputThatEndsEarlyIsAFailureThatMayMend) {
  const auto launch = image_launch("train", ImageRuntime::podman);
  const std::string output = "time=1 level=warning msg=\"old\"\nError: no space left on device\n";
  EXPECT_FALSE(is_preparation_complete(output));
  const auto prepared = prepared_software(output, launch, {}, {});
  ASSERT_FALSE(prepared);
  EXPECT_NE(prepared.error().code, Code::not_found);
  EXPECT_EQ(prepared.error().message,
            "image train (podman) could not be prepared: Error: no space left on device");
}

// --- The scripts ---

class Scripts : public testing::Test {
 protected:
  Scripts() {
    launch_.node = "demo/1.2/0";
    launch_.devices = {0};
    user_ = {{"PATH", format("{}:/usr/bin:/bin", (root_ / "bin").string())},
             {"HOME", (root_ / "home").string()}};
    for (const char* folder : {"bin", "home", "sockets"}) make_folders(root_ / folder).value();
  }

  std::string path(const std::string& name) const { return (root_ / name).string(); }
  void write(const std::string& name, const std::string& content, int mode = 0644) {
    make_folders((root_ / name).parent_path()).value();
    ASSERT_TRUE(write_file(root_ / name, content, static_cast<mode_t>(mode)));
  }
  void program(const std::string& name, const std::string& script) {
    write(name, "#!/bin/sh\n" + script, 0755);
  }
  void software(SoftwareKind kind, std::string name) {
    launch_.software = {.kind = kind, .name = std::move(name)};
  }
  void modules(std::vector<std::string> names) {
    launch_.software = {.kind = SoftwareKind::module, .modules = std::move(names)};
  }

  Result<PreparedSoftware> prepare() {
    for (const auto& [name, value] : launch_.env) user_[name] = value;
    const auto preparation = SoftwarePreparation::start(
        launch_, {.socket_folder = path("sockets"), .user = ::getuid(), .group = ::getgid()},
        user_);
    std::optional<Result<PreparedSoftware>> result;
    for (auto deadline = Deadline::after(std::chrono::seconds(30));
         !(result = preparation->take_result()) && !deadline.passed();) {
      pollfd polled{preparation->fd(), POLLIN, 0};
      ::poll(&polled, 1, 100);
    }
    while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
    return result ? *std::move(result) : Error{Code::timeout, "no result"};
  }
  // The reason for an environment that this host lacks.
  std::string missing() {
    const auto prepared = prepare();
    EXPECT_FALSE(prepared);
    if (prepared) return "";
    EXPECT_EQ(prepared.error().code, Code::not_found) << prepared.error().message;
    return prepared.error().message;
  }

  const TemporaryFolder root_;
  host::LaunchSpec launch_;
  Environment user_;
};

TEST_F(Scripts, AVenvComesFirstInThePath) {
  write("venv/bin/activate", "");
  program("venv/bin/python", "");
  software(SoftwareKind::venv, path("venv"));
  launch_.env = {{"PYTHONHOME", "/old"}, {"TEXT", "two\nlines"}, {"odd.name", "kept"}};
  const auto prepared = prepare().value();
  EXPECT_EQ(prepared.variables.at("VIRTUAL_ENV"), path("venv"));
  EXPECT_EQ(prepared.variables.at("PATH"), path("venv/bin") + ":" + user_.at("PATH"));
  EXPECT_FALSE(prepared.variables.contains("PYTHONHOME"));
  EXPECT_FALSE(prepared.variables.contains("PWD"));
  EXPECT_EQ(prepared.variables.at("TEXT"), "two\nlines");
  EXPECT_EQ(prepared.variables.at("odd.name"), "kept");
  EXPECT_TRUE(prepared.wrapper.empty());
  EXPECT_EQ(prepared.container, 0);
}

TEST_F(Scripts, AVenvThatIsNoneIsNamedWithWhatItLacks) {
  software(SoftwareKind::venv, path("no venv"));
  EXPECT_EQ(missing(), format("venv: there is no folder {0}; create it with `python3 -m venv {0}`",
                              path("no venv")));
  make_folders(root_ / "no venv").value();
  EXPECT_THAT(missing(), HasSubstr("has no bin/activate"));
  write("no venv/bin/activate", "");
  fs::create_symlink("/no/such/python", root_ / "no venv/bin/python");
  EXPECT_THAT(missing(), HasSubstr("no venv/bin/python is no program of this host"));
}

TEST_F(Scripts, ACondaEnvironmentIsActivatedByItsOwnScriptsAndVariables) {
  write("envs/train/conda-meta/state", R"({"env_vars": {"COLOR": "blue", "GONE": "***unset***"}})");
  write("envs/train/etc/conda/activate.d/one.sh",
        "export FROM_SCRIPT=\"$CONDA_PREFIX\"; echo hi\n");
  software(SoftwareKind::conda, path("envs/train"));
  launch_.env = {{"VIRTUAL_ENV", "/old"}};
  const auto prepared = prepare().value();
  EXPECT_EQ(prepared.variables.at("CONDA_PREFIX"), path("envs/train"));
  EXPECT_EQ(prepared.variables.at("CONDA_DEFAULT_ENV"), path("envs/train"));
  EXPECT_EQ(prepared.variables.at("PATH"), path("envs/train/bin") + ":" + user_.at("PATH"));
  EXPECT_EQ(prepared.variables.at("FROM_SCRIPT"), path("envs/train"));
  EXPECT_EQ(prepared.variables.at("COLOR"), "blue");
  EXPECT_FALSE(prepared.variables.contains("GONE"));
  EXPECT_FALSE(prepared.variables.contains("VIRTUAL_ENV"));
}

TEST_F(Scripts, ACondaEnvironmentIsFoundByItsName) {
  const auto found = [&] { return prepare().value().variables.at("CONDA_PREFIX"); };
  software(SoftwareKind::conda, "train");
  write("elsewhere/train/conda-meta/history", "");
  program("bin/micromamba",
          format("[ \"$*\" = 'env list' ] && echo '  train  {}'\n", path("elsewhere/train")));
  EXPECT_EQ(found(), path("elsewhere/train")) << "the tool knows a folder that nothing else does";
  write("noted/train/conda-meta/history", "");
  write("home/.conda/environments.txt",
        format("{}\n{}\n", path("gone/train"), path("noted/train")));
  EXPECT_EQ(found(), path("noted/train"));
  write("home/miniforge3/envs/train/conda-meta/history", "");
  EXPECT_EQ(found(), path("home/miniforge3/envs/train"));
  write("conda/envs/train/conda-meta/history", "");
  program("conda/condabin/conda", "exit 9\n");
  fs::create_symlink(path("conda/condabin/conda"), root_ / "bin/conda");
  EXPECT_EQ(found(), path("conda/envs/train")) << "of the installation in PATH";
  write("set/train/conda-meta/history", "");
  launch_.env["CONDA_ENVS_DIRS"] = format("{}:{}", path("nothing"), path("set"));
  EXPECT_EQ(found(), path("set/train"));
  software(SoftwareKind::conda, "base");
  write("conda/conda-meta/history", "");
  EXPECT_EQ(found(), path("conda"));
}

TEST_F(Scripts, ACondaEnvironmentThatThisHostLacksIsNamed) {
  software(SoftwareKind::conda, "tr.in");
  write("home/.conda/environments.txt", path("noted/train") + "\n");
  write("noted/train/conda-meta/history", "");
  EXPECT_THAT(missing(), AllOf(HasSubstr("conda: this host has no environment 'tr.in'"),
                               HasSubstr("`conda create --name tr.in`")));
  software(SoftwareKind::conda, path("bin"));
  EXPECT_THAT(missing(), HasSubstr("bin is no conda environment: it has no conda-meta"));
}

constexpr auto kModuleFunction = R"(
export PATH=/profile/bin COLOR=red
echo "Welcome to the cluster"
module() {
  [ "$1" = load ] || return 2
  shift
  for name; do
    [ "$name" != nope ] || { echo "ERROR: Unable to locate a modulefile for 'nope'" >&2; return 1; }
    PATH="/modules/$name/bin:$PATH" LOADEDMODULES="$LOADEDMODULES:$name"
  done
  export PATH LOADEDMODULES
}
)";

TEST_F(Scripts, ModulesAreLoadedByTheLoginShellOverTheVariablesOfTheRun) {
  write("home/.bash_profile", kModuleFunction);
  modules({"cuda/12.4", "openmpi"});
  launch_.env = {{"COLOR", "blue"}, {"PATH", "/run/bin"}};
  user_["PATH"] = "/usr/bin:/bin";
  launch_.env["PATH"] = "/run/bin:/usr/bin:/bin";
  const auto prepared = prepare().value();
  EXPECT_EQ(prepared.variables.at("LOADEDMODULES"), ":cuda/12.4:openmpi");
  EXPECT_EQ(prepared.variables.at("COLOR"), "blue");
  EXPECT_EQ(prepared.variables.at("PATH"),
            "/modules/openmpi/bin:/modules/cuda/12.4/bin:/run/bin:/usr/bin:/bin:/profile/bin");
  for (const auto& [name, value] : prepared.variables)
    EXPECT_THAT(name, Not(HasSubstr("LOCKSTEP_KEEP")));
}

TEST_F(Scripts, AModuleThatThisHostLacksIsNamedWithWhatTheToolSays) {
  write("home/.bash_profile", kModuleFunction);
  modules({"cuda/12.4", "nope"});
  EXPECT_EQ(missing(),
            "module: `module load cuda/12.4 nope` failed: ERROR: Unable to locate a "
            "modulefile for 'nope'");
  write("home/.bash_profile", "unset -f module\n");
  EXPECT_THAT(missing(), HasSubstr("has no command `module`; install Environment Modules or Lmod"));
}

TEST_F(Scripts, ALoginShellThatLeavesAProgramBehindIsNotWaitedFor) {
  write("home/.bash_profile", std::string(kModuleFunction) + "sleep 20 &\n");
  modules({"cuda"});
  const auto begun = std::chrono::steady_clock::now();
  const auto prepared = prepare();
  EXPECT_TRUE(prepared) << (prepared ? "" : prepared.error().message);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(15));
}

TEST_F(Scripts, ApptainerNeedsItsProgramAndTheImage) {
  launch_.software = {
      .kind = SoftwareKind::image, .name = path("train.sif"), .runtime = ImageRuntime::apptainer};
  user_["PATH"] = path("bin");
  fs::create_symlink("/bin/sh", root_ / "bin/sh");
  EXPECT_THAT(missing(), HasSubstr("there is no apptainer on this host"));
  fs::create_symlink("/usr/bin/env", root_ / "bin/env");
  program("bin/apptainer", "");
  EXPECT_THAT(missing(), HasSubstr(format("there is no {}", path("train.sif"))));
  write("train.sif", "");
  EXPECT_EQ(prepare().value().wrapper.front(), "apptainer");
}

// --- A Podman of this test ---

class PodmanScript : public Scripts {
 protected:
  // The preparation uses the PATH of this process.
  PodmanScript() : before_(std::getenv("PATH")) {
    ::setenv("PATH", user_.at("PATH").c_str(), 1);
    launch_.software = {.kind = SoftwareKind::image, .name = "train"};
    launch_.checkpoint_folder = path("checkpoints");
  }
  ~PodmanScript() override { ::setenv("PATH", before_.c_str(), 1); }

  // run: what `podman run` does.
  void podman(const std::string& run) {
    program("bin/podman", format(R"(
echo "$*" >> {0}/calls
case "$1 $2" in
  "image exists") [ "$3" = train ] ;;
  "run --detach") {1} ;;
  "inspect --type") cat {0}/pid ;;
  "ps --all") echo "999999999 old Up 3 minutes ago
1 other Up 3 minutes ago
0 new Created
0 ended Exited (0) 1 second ago" ;;
esac
)",
                                 root_.path().string(), run));
  }
  // Its process gets the variables a moment later, by exec.
  std::string container() const {
    return format("sh -c 'sleep 0.3; LOCKSTEP_HOLD=1 exec sleep 2' >/dev/null 2>&1 & echo $! > {}",
                  path("pid"));
  }
  std::string calls() const { return read_file(root_ / "calls").value_or(""); }

  const std::string before_;
};

TEST_F(PodmanScript, TheContainerIsStartedAndItsVariablesAreReadFromItsProcess) {
  podman(container());
  const auto prepared = prepare().value();
  EXPECT_GT(prepared.container, 0);
  EXPECT_EQ(prepared.variables.at("PATH"), user_.at("PATH"));
  EXPECT_FALSE(prepared.variables.contains("LOCKSTEP_HOLD"));
  EXPECT_TRUE(fs::is_directory(path("checkpoints")));
}

TEST_F(PodmanScript, AContainerThatEndsAtOnceIsAFailure) {
  podman(format("sh -c true & echo $! > {}; wait", path("pid")));
  const auto prepared = prepare();
  ASSERT_FALSE(prepared);
  EXPECT_THAT(prepared.error().message, HasSubstr("the container of train has ended at once"));
}

TEST_F(PodmanScript, ContainersWhoseAgentAndMonitorWereKilledAreRemoved) {
  podman(container());
  ASSERT_TRUE(prepare());
  EXPECT_THAT(calls(), AllOf(HasSubstr("rm --force old\n"), HasSubstr("rm --force ended\n"),
                             Not(HasSubstr("rm --force other")), Not(HasSubstr("rm --force new"))));
}

TEST_F(PodmanScript, AnImageThatThisHostLacksIsNamed) {
  podman("exit 1");
  launch_.software->name = "localhost/other:2";
  EXPECT_THAT(missing(), AllOf(HasSubstr("has no image localhost/other:2 on this host"),
                               HasSubstr("`podman pull localhost/other:2`")));
  EXPECT_THAT(calls(), Not(HasSubstr("run --detach")));
}

TEST_F(PodmanScript, WhatAnotherAttemptCannotMendIsTold) {
  podman("echo 'Error: unresolvable CDI devices nvidia.com/gpu=0' >&2; exit 126");
  EXPECT_THAT(missing(), AllOf(HasSubstr("does not know the GPUs of this host"),
                               HasSubstr("unresolvable CDI devices")));
  podman("echo 'Error: crun: executable file `/bin/sh` not found in $PATH' >&2; exit 127");
  EXPECT_THAT(missing(), HasSubstr("train has no /bin/sh"));
  podman("echo 'Error: statfs /data: no such file or directory' >&2; exit 125");
  EXPECT_THAT(missing(), AllOf(HasSubstr("lacks a folder"), HasSubstr("statfs /data")));
}

TEST_F(PodmanScript, OtherFailuresMayBeTriedAgain) {
  podman("echo 'Error: no space left on device' >&2; exit 125");
  const auto prepared = prepare();
  ASSERT_FALSE(prepared);
  EXPECT_NE(prepared.error().code, Code::not_found);
  EXPECT_THAT(prepared.error().message, HasSubstr("no space left on device"));
}

TEST_F(PodmanScript, AHostWithoutPodmanSaysSo) {
  for (const char* tool : {"sh", "id", "cat", "mkdir", "env"})
    fs::create_symlink(fs::path("/usr/bin") / tool, root_ / "bin" / tool);
  ::setenv("PATH", path("bin").c_str(), 1);
  EXPECT_THAT(missing(), HasSubstr("there is no podman on this host"));
}

}  // namespace
}  // namespace lockstep::agent
