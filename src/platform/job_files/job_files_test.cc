#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/job_files/horovodrun_command.h"
#include "platform/job_files/kubernetes_job.h"
#include "platform/job_files/sbatch_script.h"
#include "platform/job_files/torchrun_command.h"

namespace lockstep::job_files {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TakenRun script(const std::string& lines) {
  auto run = run_of_sbatch_script("#!/bin/bash\n" + lines, "job.sh");
  EXPECT_TRUE(run) << run.error().message;
  return run ? *run : TakenRun{};
}
std::string script_error(const std::string& lines) {
  const auto run = run_of_sbatch_script("#!/bin/bash\n" + lines, "job.sh");
  return run ? "it was taken" : run.error().message;
}

TakenRun torchrun(const std::string& line, std::optional<int> gpus = std::nullopt) {
  TakenRun run;
  const auto words = parse_shell_line(line, {}).value().words;
  EXPECT_TRUE(is_torchrun(words));
  const auto done = apply_torchrun(words, gpus, run);
  EXPECT_TRUE(done) << done.error().message;
  return run;
}
std::string torchrun_error(const std::string& line) {
  TakenRun run;
  const auto done = apply_torchrun(parse_shell_line(line, {}).value().words, std::nullopt, run);
  return done ? "it was taken" : done.error().message;
}

TakenRun horovodrun(const std::string& line) {
  TakenRun run;
  const auto words = parse_shell_line(line, {}).value().words;
  EXPECT_TRUE(is_horovodrun(words));
  const auto done = apply_horovodrun(words, run);
  EXPECT_TRUE(done) << done.error().message;
  return run;
}
std::string horovodrun_error(const std::string& line) {
  TakenRun run;
  const auto done = apply_horovodrun(parse_shell_line(line, {}).value().words, run);
  return done ? "it was taken" : done.error().message;
}

TakenRun kubernetes(const std::string& content) {
  auto run = run_of_kubernetes_file(content, "job.yaml");
  EXPECT_TRUE(run) << run.error().message;
  return run ? *run : TakenRun{};
}
std::string kubernetes_error(const std::string& content) {
  const auto run = run_of_kubernetes_file(content, "job.yaml");
  return run ? "it was taken" : run.error().message;
}

// --- torchrun ---

TEST(Torchrun, NodesAndProcessesAreNodesAndDevices) {
  const TakenRun run = torchrun(
      "torchrun --nnodes=2 --nproc_per_node 4 --max-restarts 7 "
      "--rdzv-backend c10d --rdzv_endpoint=head:29500 train.py --lr 3");
  EXPECT_EQ(run.spec.nodes, 2);
  EXPECT_EQ(run.spec.devices, 4);
  EXPECT_EQ(run.spec.rank_loss_retries, 7);
  EXPECT_THAT(run.spec.command, ElementsAre("python", "train.py", "--lr", "3"));
  EXPECT_THAT(run.left_out, IsEmpty());
}

TEST(Torchrun, ThePythonAndTheModuleOfTheCommandStay) {
  EXPECT_THAT(
      torchrun("python3.11 -m torch.distributed.run --standalone -m mine.train -x").spec.command,
      ElementsAre("python3.11", "-m", "mine.train", "-x"));
  EXPECT_THAT(torchrun("/opt/bin/torchrun --no-python ./train --fast").spec.command,
              ElementsAre("./train", "--fast"));
}

TEST(Torchrun, ARangeOfNodesIsItsEndAndSaysSo) {
  const TakenRun run = torchrun("torchrun --nnodes 1:4 train.py");
  EXPECT_EQ(run.spec.nodes, 4);
  EXPECT_THAT(run.left_out, ElementsAre(AllOf(HasSubstr("1:4"), HasSubstr("4 nodes"))));
}

TEST(Torchrun, ProcessesByGpuAreThoseOfTheNode) {
  EXPECT_EQ(torchrun("torchrun --nproc-per-node gpu train.py", 8).spec.devices, 8);
  EXPECT_THAT(torchrun_error("torchrun --nproc-per-node=gpu train.py"), HasSubstr("give it by -g"));
}

TEST(Torchrun, ErrorsNameTheOption) {
  EXPECT_THAT(torchrun_error("torchrun --nnodes two train.py"), HasSubstr("--nnodes"));
  EXPECT_THAT(torchrun_error("torchrun --nnodes"), HasSubstr("no value"));
  EXPECT_THAT(torchrun_error("torchrun --nnodes 2"), HasSubstr("no script"));
  EXPECT_THAT(torchrun_error("torchrun --nnodes $N train.py"), HasSubstr("give it by -n"));
}

// --- horovodrun ---

TEST(Horovodrun, ProcessesAreDevicesAndTheRanksFindHorovod) {
  const TakenRun run = horovodrun("horovodrun -np 4 --gloo python train.py --lr 3");
  EXPECT_EQ(run.spec.nodes, 1);
  EXPECT_EQ(run.spec.devices, 4);
  EXPECT_THAT(run.spec.command, ElementsAre("python", "train.py", "--lr", "3"));
  EXPECT_THAT(run.spec.env, Contains(Pair("LOCKSTEP_HOROVOD", "1")));
  EXPECT_THAT(run.left_out, IsEmpty());
}

TEST(Horovodrun, HostsAreNodesAndSlotsDevices) {
  const TakenRun run = horovodrun("horovodrun -np 8 -H a:4,b:4 python train.py");
  EXPECT_EQ(run.spec.nodes, 2);
  EXPECT_EQ(run.spec.devices, 4);
  EXPECT_THAT(run.left_out, ElementsAre(HasSubstr("Lockstep chooses the hosts")));
  EXPECT_EQ(horovodrun("horovodrun --hosts=a:2,b:2 ./train").spec.devices, 2);
}

TEST(Horovodrun, SettingsAreVariablesOfTheRanks) {
  const TakenRun run = horovodrun(
      "python3 -m horovod.runner.launch --num-proc 2 --fusion-threshold-mb 32 --cycle-time-ms 3.5 "
      "--timeline-filename /tmp/t.json --no-stall-check --reset-limit 5 --ssh-port 22 -- ./train");
  EXPECT_THAT(run.spec.env, Contains(Pair("HOROVOD_FUSION_THRESHOLD", "33554432")));
  EXPECT_THAT(run.spec.env, Contains(Pair("HOROVOD_CYCLE_TIME", "3.5")));
  EXPECT_THAT(run.spec.env, Contains(Pair("HOROVOD_TIMELINE", "/tmp/t.json")));
  EXPECT_THAT(run.spec.env, Contains(Pair("HOROVOD_STALL_CHECK_DISABLE", "1")));
  EXPECT_EQ(run.spec.rank_loss_retries, 5);
  EXPECT_THAT(run.left_out, ElementsAre("horovodrun --ssh-port 22"));
}

TEST(Horovodrun, ErrorsNameTheOption) {
  EXPECT_THAT(horovodrun_error("horovodrun -np two python a.py"), HasSubstr("-np"));
  EXPECT_THAT(horovodrun_error("horovodrun -np"), HasSubstr("no value"));
  EXPECT_THAT(horovodrun_error("horovodrun -np 2"), HasSubstr("no program"));
  EXPECT_THAT(horovodrun_error("horovodrun python a.py"), HasSubstr("add -np"));
  EXPECT_THAT(horovodrun_error("horovodrun -np 3 -H a:2,b:2 a.py"), HasSubstr("-n and -g"));
}

// --- scripts for Slurm ---

TEST(SbatchScript, OptionsAndTheProgramOfSrunAreARun) {
  const TakenRun run = script(R"(#SBATCH --job-name=gpt # a comment
#SBATCH -N 4 --ntasks-per-node=8
#SBATCH --gres=gpu:a100:8 --cpus-per-task=6
#SBATCH --time=1-02:30:00 --mem=64G
#SBATCH --partition=big

export LR="3e-4"
OUT=runs/1
module load cuda/12.4 openmpi
cd /data/gpt
mkdir -p $OUT
srun --label \
  python train.py --lr $LR --out "$OUT" --nodes ${SLURM_NNODES} > log.txt 2>&1
)");
  const model::RunSpec& spec = run.spec;
  EXPECT_EQ(spec.name, "gpt");
  EXPECT_EQ(spec.nodes, 4);
  EXPECT_EQ(spec.devices, 8);
  EXPECT_EQ(spec.timeout, Duration(std::chrono::hours(26) + std::chrono::minutes(30)));
  EXPECT_EQ(spec.needs.cores, 48);
  EXPECT_EQ(spec.needs.memory, 64_GiB);
  EXPECT_EQ(spec.needs.kind, map::DeviceKind::gpu);
  EXPECT_THAT(spec.env, ElementsAre(Pair("LR", "3e-4")));
  EXPECT_THAT(*spec.module, ElementsAre("cuda/12.4", "openmpi"));
  EXPECT_EQ(spec.working_folder, "/data/gpt");
  EXPECT_THAT(spec.command,
              ElementsAre("python", "train.py", "--lr", "3e-4", "--out", "runs/1", "--nodes", "4"));
  EXPECT_EQ(spec.slurm, (model::SlurmRequest{.partition = "big", .gpu_type = "a100"}));
  EXPECT_THAT(run.left_out, ElementsAre("line 12: mkdir -p $OUT",
                                        "line 13: > log.txt 2>&1 (a run keeps its output)"));
}

TEST(SbatchScript, TorchrunBehindSrunIsReadToo) {
  const TakenRun run = script(R"(#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head" hostname --ip-address)
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
source ~/venvs/train/bin/activate
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node gpu --rdzv_id $RANDOM \
  --rdzv_endpoint $head_node_ip:29500 train.py 50 10
)");
  EXPECT_EQ(run.spec.nodes, 2);
  EXPECT_EQ(run.spec.devices, 4);
  EXPECT_EQ(run.spec.venv, "~/venvs/train");
  EXPECT_THAT(run.spec.command, ElementsAre("python", "train.py", "50", "10"));
  EXPECT_THAT(run.left_out, Contains(HasSubstr("MASTER_ADDR")));
  EXPECT_THAT(run.left_out, Contains(HasSubstr("line 5: nodes=(")));
}

TEST(SbatchScript, ItSeesTheSubmittersEnvironment) {
  const auto run = run_of_sbatch_script(
      "#!/bin/bash\n#SBATCH -N 1\nsource ~/venv/bin/activate\nsrun ./train $SCRATCH/in '~/x'\n",
      "job.sh", {{"HOME", "/home/ann"}, {"SCRATCH", "/scratch"}});
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->spec.venv, "/home/ann/venv");
  EXPECT_THAT(run->spec.command, ElementsAre("./train", "/scratch/in", "~/x"));
}

TEST(SbatchScript, OptionsOfSrunCountAsThoseOfTheScript) {
  const TakenRun run = script("#SBATCH -t 90\nsrun -N2 -n 8 --cpu-bind=none ./train --fast\n");
  EXPECT_EQ(run.spec.nodes, 2);
  EXPECT_EQ(run.spec.devices, 4);
  EXPECT_EQ(run.spec.timeout, Duration(std::chrono::minutes(90)));
  EXPECT_THAT(run.spec.command, ElementsAre("./train", "--fast"));
}

TEST(SbatchScript, OneTaskWithSeveralGpusHasARankForEachAndSaysSo) {
  const TakenRun run = script("#SBATCH --gres=gpu:4\nsrun python train.py\n");
  EXPECT_EQ(run.spec.devices, 4);
  EXPECT_THAT(run.left_out, ElementsAre(HasSubstr("one rank for each of 4 GPUs")));
}

TEST(SbatchScript, TheRequestsThatOnlySlurmKnowsStay) {
  const TakenRun run = script(
      "#SBATCH -A team -q high -C a100&nvlink --switches=1@10:00\n"
      "#SBATCH -p gpu\n"
      "srun ./train\n");
  EXPECT_EQ(run.spec.slurm, (model::SlurmRequest{.account = "team",
                                                 .qos = "high",
                                                 .constraint = "a100&nvlink",
                                                 .partition = "gpu",
                                                 .switches = "1@10:00"}));
  EXPECT_THAT(run.left_out, IsEmpty());
}

TEST(SbatchScript, AConstraintOrPartitionThatARunCannotHaveIsLeftOut) {
  const TakenRun run = script("#SBATCH -C a100|v100 --partition=a,b\nsrun ./train\n");
  EXPECT_EQ(run.spec.slurm, std::nullopt);
  EXPECT_THAT(run.left_out,
              ElementsAre("line 2: --constraint a100|v100", "line 2: --partition a,b"));
}

TEST(SbatchScript, TimesAreThoseOfSlurm) {
  using std::chrono::hours, std::chrono::minutes, std::chrono::seconds;
  EXPECT_EQ(parse_slurm_time("30").value(), Duration(minutes(30)));
  EXPECT_EQ(parse_slurm_time("30:15").value(), Duration(minutes(30) + seconds(15)));
  EXPECT_EQ(parse_slurm_time("2:00:00").value(), Duration(hours(2)));
  EXPECT_EQ(parse_slurm_time("1-12").value(), Duration(hours(36)));
  EXPECT_EQ(parse_slurm_time("1-00:30").value(), Duration(hours(24) + minutes(30)));
  EXPECT_FALSE(parse_slurm_time("0"));
  EXPECT_FALSE(parse_slurm_time("1:2:3:4"));
  EXPECT_FALSE(parse_slurm_time("soon"));
}

TEST(SbatchScript, WhatWouldChangeTheScriptIsAnErrorWithItsLine) {
  const std::string begin = "#SBATCH -N 2\n";
  EXPECT_THAT(script_error(begin + "for i in 1 2; do\nsrun ./train\ndone\n"),
              HasSubstr("job.sh:3: "));
  EXPECT_THAT(script_error(begin + "srun ./train --seed $SLURM_ARRAY_TASK_ID\n"),
              AllOf(HasSubstr("job.sh:3: "), HasSubstr("$SLURM_ARRAY_TASK_ID")));
  EXPECT_THAT(script_error("#SBATCH --array=1-9\nsrun ./train\n"),
              AllOf(HasSubstr("job.sh:2: "), HasSubstr("array")));
  EXPECT_THAT(script_error(begin + "srun ./a\nsrun ./b\n"), HasSubstr("srun is in line 3 too"));
  EXPECT_THAT(script_error(begin + "srun ./a && ./b\n"), HasSubstr("'&&'"));
  EXPECT_THAT(script_error(begin + "echo only\n"), HasSubstr("no line starts a program"));
  EXPECT_THAT(script_error(begin + "srun --nodes=many ./a\n"), HasSubstr("--nodes"));
  EXPECT_THAT(script_error(begin + "srun 'open\n"), HasSubstr("not closed"));
}

TEST(SbatchScript, ItIsKnownByItsOptions) {
  EXPECT_TRUE(is_sbatch_script("#!/bin/bash\n#SBATCH -N 1\n./a\n"));
  EXPECT_FALSE(is_sbatch_script("#!/bin/bash\n./a\n"));
  EXPECT_FALSE(is_sbatch_script("command: [a]\n#SBATCH\n"));
}

// --- Kubernetes ---

constexpr auto kJob = R"(apiVersion: v1
kind: Service
metadata: {name: train}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  parallelism: 4
  completions: 4
  completionMode: Indexed
  backoffLimit: 2
  activeDeadlineSeconds: 7200
  template:
    spec:
      restartPolicy: Never
      priorityClassName: high
      nodeSelector: {rack: a3}
      volumes:
        - {name: data, hostPath: {path: /data}}
        - {name: shm, emptyDir: {medium: Memory}}
      containers:
        - name: main
          image: localhost/train:2
          command: [sh, -c, "torchrun --nnodes 4 --nproc-per-node 8 train.py --lr 1"]
          workingDir: /work
          env:
            - {name: DEPTH, value: "12"}
            - {name: KEY, valueFrom: {secretKeyRef: {name: a, key: b}}}
          volumeMounts:
            - {name: data, mountPath: /data}
            - {name: shm, mountPath: /dev/shm}
          resources:
            limits: {nvidia.com/gpu: 8, cpu: 64, memory: 512Gi}
            requests: {cpu: "31500m"}
)";

TEST(KubernetesFile, AJobIsARun) {
  const TakenRun run = kubernetes(kJob);
  const model::RunSpec& spec = run.spec;
  EXPECT_EQ(spec.name, "train");
  EXPECT_EQ(spec.nodes, 4);
  EXPECT_EQ(spec.devices, 8);
  EXPECT_EQ(spec.retries, 2);
  EXPECT_EQ(spec.timeout, Duration(std::chrono::hours(2)));
  EXPECT_EQ(spec.image, "localhost/train:2");
  EXPECT_EQ(spec.working_folder, "");
  EXPECT_THAT(spec.command, ElementsAre("python", "train.py", "--lr", "1"));
  EXPECT_THAT(spec.env, ElementsAre(Pair("DEPTH", "12")));
  EXPECT_THAT(*spec.mounts, ElementsAre("/data"));
  EXPECT_THAT(*spec.needs.labels, ElementsAre(Pair("rack", "a3")));
  EXPECT_EQ(spec.needs.cores, 32);
  EXPECT_EQ(spec.needs.memory, 512_GiB);
  EXPECT_THAT(run.left_out, UnorderedElementsAre(
                                "line 18: spec/template/spec/priorityClassName",
                                HasSubstr("workingDir"), HasSubstr("KEY has no value in the file"),
                                "line 22: spec/template/spec/volumes/1", "the Service"));
}

TEST(KubernetesFile, APodIsARunOfOneNode) {
  const TakenRun run = kubernetes(
      "apiVersion: v1\nkind: Pod\nmetadata: {generateName: try-}\n"
      "spec: {containers: [{image: a, command: [./train], args: [--fast]}]}\n");
  EXPECT_EQ(run.spec.name, "try");
  EXPECT_EQ(run.spec.nodes, 1);
  EXPECT_THAT(run.spec.command, ElementsAre("./train", "--fast"));
}

TEST(KubernetesFile, ErrorsNameTheLine) {
  const std::string head = "apiVersion: batch/v1\nkind: Job\n";
  EXPECT_THAT(kubernetes_error(head + "spec:\n  parallelism: 2\n  completions: 9\n"),
              AllOf(HasSubstr("job.yaml:5: completions"), HasSubstr("start together")));
  EXPECT_THAT(kubernetes_error(head + "spec:\n  parallelism: two\n"),
              HasSubstr("job.yaml:4: parallelism: expected an integer"));
  EXPECT_THAT(kubernetes_error(head), HasSubstr("no containers"));
  EXPECT_THAT(kubernetes_error("apiVersion: v1\nkind: Service\n"), HasSubstr("no Job or Pod"));
  const std::string pod = "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: a";
  EXPECT_THAT(kubernetes_error(pod + "}]}\n"), HasSubstr("names no command"));
  EXPECT_THAT(
      kubernetes_error(pod + ", command: [a], resources: {limits: {nvidia.com/gpu: x}}}]}\n"),
      HasSubstr("expected a number"));
  EXPECT_THAT(kubernetes_error(pod + ", command: [sh, -c, \"a; torchrun b.py\"]}]}\n"),
              HasSubstr("write torchrun alone"));
}

}  // namespace
}  // namespace lockstep::job_files
