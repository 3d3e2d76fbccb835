#include "platform/core/model/run.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "platform/core/model/limit_signal.h"
#include "platform/core/model/secret_name.h"

namespace lockstep::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

RunSpec good() {
  RunSpec spec;
  spec.command = {"python", "train.py"};
  return spec;
}

std::string complaint(const RunSpec& spec) {
  auto checked = check(spec);
  if (checked) return "";
  EXPECT_EQ(checked.error().code, Code::invalid);
  return checked.error().message;
}

TEST(RunSpec, WithACommandIsEnough) { EXPECT_EQ(complaint(good()), ""); }

TEST(RunSpec, WithoutACommandIsRefusedWithAnExample) {
  auto spec = good();
  spec.command = {};
  EXPECT_THAT(complaint(spec), HasSubstr("lockstep run -- python train.py"));
  spec.command = {""};
  EXPECT_THAT(complaint(spec), HasSubstr("names no program"));
}

TEST(RunSpec, IsRefusedIfItsTextsAreLarge) {
  auto spec = good();
  spec.command.emplace_back(200 << 10, 'x');
  EXPECT_EQ(complaint(spec), "");
  spec.env["DATA"] = std::string(57 << 10, 'y');
  EXPECT_THAT(complaint(spec),
              AllOf(HasSubstr("a run may have 256"), HasSubstr("put large values into a file")));
}

TEST(RunSpec, NeedsATimeOutThatIsMoreThanZero) {
  auto spec = good();
  spec.timeout = Duration(0);
  EXPECT_THAT(complaint(spec), HasSubstr("timeout: must be more than 0"));
  spec.timeout = std::chrono::seconds(-1);
  EXPECT_THAT(complaint(spec), HasSubstr("timeout"));
  spec.timeout = Duration::max();
  EXPECT_THAT(complaint(spec), HasSubstr("at most"));
}

TEST(RunSpec, MayAskForASignalBeforeItsTimeOut) {
  EXPECT_EQ(parse_limit_signal("USR1@5m").value(), (LimitSignal{SIGUSR1, std::chrono::minutes(5)}));
  EXPECT_EQ(parse_limit_signal("SIGTERM@90s").value(),
            (LimitSignal{SIGTERM, std::chrono::seconds(90)}));
  EXPECT_EQ(parse_limit_signal("INT").value(), (LimitSignal{SIGINT, std::chrono::minutes(1)}));
  auto spec = good();
  for (const auto& [text, problem] : {std::pair("KILL@5m", "names none of HUP"),
                                      {"", "names none of"},
                                      {"USR1@", "no time after '@'"},
                                      {"USR1@soon", "no time after '@'"},
                                      {"USR1@0s", "not from 0s to 1d"},
                                      {"USR1@2d", "not from 0s to 1d"}}) {
    spec.signal = text;
    EXPECT_THAT(complaint(spec), AllOf(HasSubstr("signal: '"), HasSubstr(problem))) << text;
  }
}

TEST(RunSpec, MayNeverCountARankAsHung) {
  auto spec = good();
  spec.hang_after = Duration(0);
  EXPECT_EQ(complaint(spec), "");
  spec.hang_after = std::chrono::seconds(-1);
  EXPECT_THAT(complaint(spec), AllOf(HasSubstr("hang_after: "), HasSubstr("from 0"),
                                     HasSubstr("365d"), HasSubstr("-1s")));
}

TEST(RunSpec, WithCountsOutOfRangeIsRefusedByField) {
  auto spec = good();
  spec.nodes = 0;
  EXPECT_THAT(complaint(spec),
              AllOf(HasSubstr("nodes: "), HasSubstr("1 to 100000"), HasSubstr("got 0")));
  spec = good();
  spec.devices = -1;
  EXPECT_THAT(complaint(spec), HasSubstr("devices: must be from 1"));
  spec = good();
  spec.devices = 4;
  spec.remainder = 4;
  EXPECT_THAT(complaint(spec),
              AllOf(HasSubstr("remainder: "), HasSubstr("0 to 3"), HasSubstr("got 4")));
  spec = good();
  spec.retries = -1;
  EXPECT_THAT(complaint(spec), HasSubstr("retries: must be from 0"));
  spec = good();
  spec.rank_loss_retries = -1;
  EXPECT_THAT(complaint(spec), HasSubstr("rank_loss_retries: must be from 0"));
}

TEST(RunSpec, ARemainderIsOneMoreNodeWithFewerDevices) {
  auto spec = good();
  spec.nodes = 2;
  spec.devices = 4;
  EXPECT_EQ(node_count(spec), 2);
  EXPECT_EQ(rank_count(spec), 8);
  spec.remainder = 3;
  EXPECT_EQ(complaint(spec), "");
  EXPECT_EQ(node_count(spec), 3);
  EXPECT_EQ(rank_count(spec), 11);
  EXPECT_EQ(devices_on_node(spec, 1), 4);
  EXPECT_EQ(devices_on_node(spec, 2), 3);
}

TEST(RunSpec, CannotSetLockstepsOwnEnvironment) {
  auto spec = good();
  spec.env = {{"LOCKSTEP_SECRET_FILE", "x"}};
  EXPECT_THAT(complaint(spec), HasSubstr("'LOCKSTEP_SECRET_FILE' is Lockstep's own"));
  spec.env = {{"LOCKSTEP_BIND", "none"}, {"LOCKSTEP_FLIGHT_DIR", "/dev/shm/flight"}};
  EXPECT_EQ(complaint(spec), "");
  spec.env = {{"A=B", "x"}};
  EXPECT_THAT(complaint(spec), HasSubstr("env: 'A=B'"));
}

using SecretNames = std::map<std::string, std::string>;

TEST(RunSpec, ASecretSetsAVariableThatEnvDoesNotSet) {
  auto spec = good();
  spec.secrets = SecretNames{{"HF_TOKEN", "hf-token"}, {"KEY", "Team.key_2"}};
  EXPECT_TRUE(check(spec));
  spec.env = {{"HF_TOKEN", "x"}};
  EXPECT_THAT(complaint(spec), HasSubstr("secrets: HF_TOKEN is in env, too"));
  spec.env.clear();
  for (const char* variable : {"", "A=B", "A B", "LOCKSTEP_LOG", "A\n"}) {
    spec.secrets = SecretNames{{variable, "hf-token"}};
    EXPECT_THAT(complaint(spec), HasSubstr("secrets: ")) << variable;
  }
  for (const char* secret : {"", "-a", "a/b", "\xc3\xa4"}) {
    spec.secrets = SecretNames{{"A", secret}};
    EXPECT_THAT(complaint(spec), HasSubstr("secrets: A: the name of a secret")) << secret;
  }
  spec.secrets->clear();
  for (int i = 0; i <= 100; ++i) spec.secrets->emplace(format("V{}", i), "s");
  EXPECT_THAT(complaint(spec), HasSubstr("at most 100"));
}

TEST(RunSpec, TheValueOfASecretIsTextWithABound) {
  EXPECT_TRUE(check_secret_value("hunter2\n"));
  EXPECT_TRUE(check_secret_value(std::string(64 << 10, 'x')));
  EXPECT_FALSE(check_secret_value(std::string((64 << 10) + 1, 'x')));
  for (const std::string& value : {std::string(), std::string("a\0b", 3), std::string("\xff")})
    EXPECT_FALSE(check_secret_value(value));
}

TEST(RunSpec, ReplacesGlooAndNcclOnly) {
  auto spec = good();
  for (const char* names : {"", "gloo", "nccl", "gloo,nccl"}) {
    spec.env = {{"LOCKSTEP_REPLACE_BACKEND", names}};
    EXPECT_EQ(complaint(spec), "") << names;
  }
  spec.env = {{"LOCKSTEP_REPLACE_BACKEND", "gloo,mpi"}};
  EXPECT_THAT(complaint(spec), AllOf(HasSubstr("(--replace-backend): 'gloo,mpi' is not"),
                                     HasSubstr("write gloo, nccl or gloo,nccl")));
}

TEST(RunSpec, MayAskForTheStandInsOfWandbAndHorovod) {
  auto spec = good();
  spec.env = {{"LOCKSTEP_WANDB", "1"}, {"LOCKSTEP_HOROVOD", "1"}};
  EXPECT_EQ(complaint(spec), "");
}

TEST(RunSpec, HasAtMostOneEnvironment) {
  auto spec = good();
  EXPECT_FALSE(software_environment(spec));
  spec.conda = "train";
  EXPECT_EQ(complaint(spec), "");
  spec.image = "localhost/train:2";
  EXPECT_THAT(complaint(spec), AllOf(HasSubstr("image: "), HasSubstr("names conda, too")));
}

TEST(RunSpec, NamesTheFieldOfAnEnvironmentThatCannotBe) {
  auto spec = good();
  spec.venv = "venvs/train";
  EXPECT_THAT(complaint(spec), HasSubstr("venv: must be an absolute path, got 'venvs/train'"));
  spec = good();
  spec.conda = "envs/train";
  EXPECT_THAT(complaint(spec), HasSubstr("conda: must be an absolute path"));
  spec.conda = "-n";
  EXPECT_THAT(complaint(spec), HasSubstr("conda: '-n' is not a name"));
  spec = good();
  spec.module = std::vector<std::string>();
  EXPECT_THAT(complaint(spec), HasSubstr("module: must name 1 to 100 modules, got 0"));
  spec.module = {{"cuda/12.4", "a\nb"}};
  EXPECT_THAT(complaint(spec), HasSubstr("module: 'a^Jb' is not a name"));
  spec = good();
  spec.runtime = ImageRuntime::podman;
  EXPECT_THAT(complaint(spec), HasSubstr("runtime: is for an image"));
  spec = good();
  spec.mounts = {{"/data"}};
  EXPECT_THAT(complaint(spec), HasSubstr("mounts: are for an image"));
  spec.image = "train";
  spec.mounts = {{"data"}};
  EXPECT_THAT(complaint(spec), HasSubstr("mounts: must be an absolute path"));
}

TEST(RunSpec, StartsAFileByApptainerAndANameByPodman) {
  auto spec = good();
  spec.image = "/images/train.sif";
  EXPECT_EQ(software_environment(spec)->runtime, ImageRuntime::apptainer);
  EXPECT_EQ(complaint(spec), "");
  spec.runtime = ImageRuntime::podman;
  EXPECT_THAT(complaint(spec), HasSubstr("write `runtime: apptainer`"));
  spec.image = "localhost/train:2";
  spec.runtime.reset();
  EXPECT_EQ(software_environment(spec)->runtime, ImageRuntime::podman);
  EXPECT_EQ(text(*software_environment(spec)), "image localhost/train:2 (podman)");
  spec.runtime = ImageRuntime::apptainer;
  EXPECT_THAT(complaint(spec), HasSubstr("name it by its path"));
}

TEST(RunSpec, HasANameOfOnePlainLine) {
  auto spec = good();
  spec.name =
      "gr\xc3\xb6\xc3\x9f"
      "er, take 2";
  EXPECT_EQ(complaint(spec), "");
  spec.name = "\x1b[2J";
  EXPECT_THAT(complaint(spec), HasSubstr("name: must be one line"));
  spec.name = std::string(201, 'x');
  EXPECT_THAT(complaint(spec), HasSubstr("at most 200 bytes"));
}

TEST(RunSpec, NamesFoldersAbsolutely) {
  auto spec = good();
  spec.checkpoint_folder = "here";
  EXPECT_THAT(complaint(spec),
              AllOf(HasSubstr("checkpoint_folder: "), HasSubstr("absolute"), HasSubstr("'here'")));
}

TEST(RunState, OnlyFourAreFinal) {
  int finals = 0;
  for (const auto& entry : enum_names(RunState{})) finals += is_final(entry.value);
  EXPECT_EQ(finals, 4);
  EXPECT_EQ(text(RunState::timed_out), "timed_out");
  EXPECT_EQ(parse_name<RunState>("queued").value(), RunState::queued);
}

}  // namespace
}  // namespace lockstep::model
