#include "platform/engine/slurm/slurm_engine.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include <gtest/gtest.h>

#include "base/os/files.h"
#include "map/query.h"
#include "platform/engine/local/eventually_for_test.h"
#include "platform/host/node_files.h"

namespace lockstep::engine {
namespace {

// A Slurm with the jobs that were submitted; a test changes its output.
class FakeSlurm : public SlurmCommands {
 public:
  Result<std::string> run(const std::vector<std::string>& command) override {
    if (command[0] == "sbatch" && during_sbatch_) during_sbatch_();
    const Lock lock(mutex_);
    calls_.push_back(command);
    if (!away_.empty()) return Error{Code::unavailable, away_};
    if (command[0] == "squeue") return command[2] == "-s" ? steps_ : jobs_;
    if (command[0] == "sinfo") return hosts_;
    if (command[0] != "sbatch") return std::string();
    for (const std::string& word : command)
      if (word.starts_with("--comment=")) comment_ = word.substr(10);
    if (accepts_) jobs_ = "7|PENDING|Resources||1|N/A|" + comment_ + "\n";
    return answer_;
  }

  void set_away(const std::string& words) {
    const Lock lock(mutex_);
    away_ = words;
  }
  // `accepts`: sbatch has its effect, even if the answer is an error.
  void set_answer(Result<std::string> answer, bool accepts) {
    const Lock lock(mutex_);
    answer_ = std::move(answer);
    accepts_ = accepts;
  }
  void set_job(const std::string& state, const std::string& steps) {
    const Lock lock(mutex_);
    jobs_ = "7|" + state + "|None|" + host_ + "|1|N/A|" + comment_ + "\n";
    steps_ = steps;
  }
  // Where the job is from now on.
  void set_host(const std::string& host) {
    const Lock lock(mutex_);
    host_ = host;
  }
  void set_hosts(const std::string& lines) {
    const Lock lock(mutex_);
    hosts_ = lines;
  }
  // Before the first submission.
  void set_during_sbatch(std::function<void()> act) { during_sbatch_ = std::move(act); }
  // Without a submission.
  void set_comment(const std::string& comment) {
    const Lock lock(mutex_);
    comment_ = comment;
  }
  // squeue shows one more job of the attempt.
  void add_job(const std::string& id) {
    const Lock lock(mutex_);
    jobs_ += id + "|PENDING|Resources||1|N/A|" + comment_ + "\n";
  }
  std::ptrdiff_t count(const std::string& program) {
    const Lock lock(mutex_);
    return std::ranges::count_if(calls_, [&](const auto& call) { return call[0] == program; });
  }
  bool was_called(const std::vector<std::string>& command) {
    const Lock lock(mutex_);
    return std::ranges::find(calls_, command) != calls_.end();
  }

 private:
  std::function<void()> during_sbatch_;
  Mutex mutex_;
  std::vector<std::vector<std::string>> calls_;
  std::string away_, jobs_, steps_, comment_, host_ = "n1";
  std::string hosts_ = "n1|idle|(null)|4|1000|n1|all|(null)|none\n";
  Result<std::string> answer_ = std::string("7");
  bool accepts_ = true;
};

class SlurmEngineTest : public testing::Test {
 protected:
  SlurmEngineTest()
      : home_(std::filesystem::temp_directory_path() /
              ("slurm_engine_test-" + std::to_string(::getpid()))) {}
  ~SlurmEngineTest() override { std::filesystem::remove_all(home_); }

  std::unique_ptr<SlurmEngine> make_engine(Duration calm_interval = std::chrono::milliseconds(5),
                                           std::vector<SlurmPartition> partitions = {
                                               {.name = "all"}}) {
    return std::make_unique<SlurmEngine>(SlurmEngine::Setup{
        .slurm = slurm_,
        .clock = clock_,
        .options = {.installation = "cafe",
                    .partitions = std::move(partitions),
                    .account = "",
                    .more = {},
                    .program = "/shared/lockstep"},
        .home = home_,
        .first_interval = std::chrono::milliseconds(5),
        .busy_interval = std::chrono::milliseconds(5),
        .calm_interval = calm_interval,
        .end_interval = std::chrono::milliseconds(5),
        .hosts_interval = std::chrono::milliseconds(20),
        .list_age_max = std::max(calm_interval * 2, Duration(std::chrono::milliseconds(200)))});
  }
  Gang gang_of_one() const {
    Gang gang;
    gang.attempt = node_.attempt();
    NodePlacement placement;
    placement.host = placement.address = "n1";
    placement.devices = {0};
    gang.nodes.push_back(placement);
    return gang;
  }
  static std::optional<model::Observation> seen_by(SlurmEngine& engine) {
    const auto listed = engine.list();
    if (!listed || listed->nodes.empty()) return std::nullopt;
    return listed->nodes[0].seen;
  }
  static bool reaches(SlurmEngine& engine, model::NodePhase phase, const std::string& reason = "") {
    return eventually([&] {
      const auto seen = seen_by(engine);
      return seen && seen->phase == phase && seen->reason.find(reason) != std::string::npos;
    });
  }

  const model::NodeName node_ = model::parse_node_name("0123456789abcdef:demo/1.1/0").value();
  const std::filesystem::path home_;
  const SystemClock clock_;
  const std::shared_ptr<FakeSlurm> slurm_ = std::make_shared<FakeSlurm>();
};

TEST_F(SlurmEngineTest, AGangIsSubmittedOnceAndListedWithSlurmsReason) {
  const auto engine = make_engine();
  engine->submit(gang_of_one());
  engine->submit(gang_of_one());
  EXPECT_TRUE(reaches(*engine, model::NodePhase::pending, "Resources"));
  engine->submit(gang_of_one());
  slurm_->set_job("RUNNING", "7.0|node-0|n1\n");
  EXPECT_TRUE(reaches(*engine, model::NodePhase::present));
  EXPECT_EQ(slurm_->count("sbatch"), 1);
}

// Slurm chooses the host.
TEST_F(SlurmEngineTest, AGangWithoutHostsIsOnTheHostThatItsJobGot) {
  const auto engine = make_engine();
  Gang gang = gang_of_one();
  gang.nodes[0].host = gang.nodes[0].address = "";
  engine->submit(gang);
  EXPECT_TRUE(reaches(*engine, model::NodePhase::pending, "Resources"));
  EXPECT_EQ(seen_by(*engine)->host, "");
  slurm_->set_host("n3");
  slurm_->set_job("RUNNING", "");
  EXPECT_TRUE(reaches(*engine, model::NodePhase::starting));
  EXPECT_EQ(seen_by(*engine)->host, "n3");
  slurm_->set_host("");
  slurm_->set_job("NODE_FAIL", "");
  EXPECT_TRUE(reaches(*engine, model::NodePhase::gone));
  EXPECT_EQ(seen_by(*engine)->host, "") << "it is no longer of the job, and no script ran";
}

TEST_F(SlurmEngineTest, TheHostThatTheScriptHasWrittenIsKeptWhenItLeavesTheJob) {
  const auto engine = make_engine();
  Gang gang = gang_of_one();
  gang.nodes[0].host = gang.nodes[0].address = "";
  engine->submit(gang);
  EXPECT_TRUE(reaches(*engine, model::NodePhase::pending, "Resources"));
  ASSERT_TRUE(write_file(step_host_file(host::node_folder(home_, node_)), "n3\n"));
  slurm_->set_host("");
  slurm_->set_job("NODE_FAIL", "");
  EXPECT_TRUE(reaches(*engine, model::NodePhase::gone));
  EXPECT_EQ(seen_by(*engine)->host, "n3");
}

TEST_F(SlurmEngineTest, AnotherDaemonFindsTheJobByItsComment) {
  {
    const auto first = make_engine();
    first->submit(gang_of_one());
    EXPECT_TRUE(reaches(*first, model::NodePhase::pending, "Resources"));
  }
  const auto second = make_engine();
  second->submit(gang_of_one());
  EXPECT_TRUE(reaches(*second, model::NodePhase::pending, "Resources"));
  EXPECT_EQ(slurm_->count("sbatch"), 1);
}

TEST_F(SlurmEngineTest, AJobWhoseAnswerWasLostIsNotSubmittedAgain) {
  slurm_->set_answer(Error{Code::unavailable, "Socket timed out"}, true);
  const auto engine = make_engine();
  engine->submit(gang_of_one());
  EXPECT_TRUE(reaches(*engine, model::NodePhase::pending, "Resources"));
  EXPECT_EQ(slurm_->count("sbatch"), 1);
}

// If it counted as gone, its agent could run beside the next attempt's.
TEST_F(SlurmEngineTest, ANodeThatIsKilledDuringItsSubmissionIsListedUntilItsJobIsKnown) {
  const auto engine = make_engine(std::chrono::seconds(30));
  std::atomic<bool> is_listed = false;
  slurm_->set_during_sbatch([&] {
    engine->kill(node_);
    is_listed = seen_by(*engine).has_value();
  });
  slurm_->set_answer(Error{Code::unavailable, "Socket timed out"}, true);
  engine->submit(gang_of_one());
  EXPECT_TRUE(eventually([&] { return slurm_->was_called({"scancel", "7"}); }));
  EXPECT_TRUE(is_listed);
  EXPECT_EQ(slurm_->count("sbatch"), 1);
}

TEST_F(SlurmEngineTest, ARefusedJobIsGoneWithSlurmsWords) {
  slurm_->set_answer(Error{Code::denied, "sbatch: invalid partition"}, false);
  const auto engine = make_engine();
  engine->submit(gang_of_one());
  EXPECT_TRUE(reaches(*engine, model::NodePhase::gone, "invalid partition"));
  EXPECT_EQ(seen_by(*engine)->blame, model::EndBlame::refusal) << "no other job would start";
}

TEST_F(SlurmEngineTest, AJobAboveALimitThatOthersUseUpMayStartLater) {
  slurm_->set_answer(
      Error{Code::denied, "sbatch: error: QOSMaxSubmitJobPerUserLimit: Job violates QOS policy"},
      false);
  const auto engine = make_engine();
  engine->submit(gang_of_one());
  EXPECT_TRUE(reaches(*engine, model::NodePhase::gone, "QOSMaxSubmitJobPerUserLimit"));
  EXPECT_EQ(seen_by(*engine)->blame, model::EndBlame::engine);
}

TEST_F(SlurmEngineTest, WhileSlurmIsAwayTheListFailsAndSaysSinceWhen) {
  const auto engine = make_engine();
  EXPECT_TRUE(eventually([&] { return engine->list().has_value(); }));
  slurm_->set_away("Unable to contact slurm controller");
  engine->submit(gang_of_one());
  EXPECT_TRUE(eventually([&] { return !engine->list().has_value(); }));
  const Error error = engine->list().error();
  EXPECT_EQ(error.code, Code::unavailable);
  EXPECT_TRUE(error.message.starts_with("slurmctld has not answered since ")) << error.message;
  slurm_->set_away("");
  EXPECT_TRUE(reaches(*engine, model::NodePhase::pending, "Resources"));
}

TEST_F(SlurmEngineTest, TheYoungerOfTwoJobsOfAnAttemptIsCancelled) {
  const auto engine = make_engine();
  engine->submit(gang_of_one());
  EXPECT_TRUE(reaches(*engine, model::NodePhase::pending, "Resources"));
  slurm_->add_job("8");
  EXPECT_TRUE(eventually([&] { return slurm_->was_called({"scancel", "8"}); }));
  EXPECT_FALSE(slurm_->was_called({"scancel", "7"}));
  EXPECT_EQ(engine->list()->nodes.size(), 1u);
}

// If it counted as gone, the agent of the second job could run beside the next attempt's.
TEST_F(SlurmEngineTest, ANodeIsListedUntilTheSecondJobOfItsAttemptIsOver) {
  const auto engine = make_engine();
  engine->submit(gang_of_one());
  EXPECT_TRUE(reaches(*engine, model::NodePhase::pending, "Resources"));
  slurm_->set_job("CANCELLED", "");
  slurm_->add_job("8");
  EXPECT_TRUE(eventually([&] { return slurm_->was_called({"scancel", "8"}); }));
  EXPECT_TRUE(reaches(*engine, model::NodePhase::present));
  EXPECT_FALSE(seen_by(*engine)->has_agent);
  slurm_->set_job("CANCELLED", "");
  EXPECT_TRUE(reaches(*engine, model::NodePhase::gone, "cancelled"));
}

// The submission of an earlier daemon, which no list has shown yet.
TEST_F(SlurmEngineTest, AnAgentThatRunsBeforeItsJobIsListedIsNoFailure) {
  ASSERT_TRUE(make_folders(host::node_folder(home_, node_)));
  const auto engine = make_engine();
  EXPECT_TRUE(eventually([&] { return engine->list().has_value(); }));
  ASSERT_TRUE(write_file(host::NodeFiles{host::node_folder(home_, node_)}.lock(), ""));
  engine->submit(gang_of_one());
  slurm_->set_comment("lockstep cafe:0123456789abcdef:demo/1.1 nodes=1");
  slurm_->set_job("RUNNING", "7.0|node-0|n1\n");
  EXPECT_TRUE(reaches(*engine, model::NodePhase::present));
  EXPECT_EQ(slurm_->count("sbatch"), 0);
}

TEST_F(SlurmEngineTest, AnAttemptWhoseAgentsEndedLongAgoIsGone) {
  const auto folder = host::node_folder(home_, node_);
  ASSERT_TRUE(make_folders(folder));
  ASSERT_TRUE(write_file(host::NodeFiles{folder}.lock(), ""));
  const auto engine = make_engine();
  engine->submit(gang_of_one());
  EXPECT_TRUE(reaches(*engine, model::NodePhase::gone, "were started before"));
  EXPECT_EQ(slurm_->count("sbatch"), 0);
}

TEST_F(SlurmEngineTest, ANodeThatHasEndedIsListedAtOnce) {
  const auto engine = make_engine(std::chrono::minutes(5));
  engine->submit(gang_of_one());
  EXPECT_TRUE(reaches(*engine, model::NodePhase::pending, "Resources"));
  slurm_->set_job("RUNNING", "7.0|node-0|n1\n");
  EXPECT_TRUE(reaches(*engine, model::NodePhase::present));
  const auto folder = host::node_folder(home_, node_);
  ASSERT_TRUE(write_file(host::NodeFiles{folder}.lock(), ""));
  slurm_->set_job("COMPLETED", "");
  ASSERT_TRUE(write_file(step_end_file(folder), "0"));
  EXPECT_TRUE(reaches(*engine, model::NodePhase::gone));
}

TEST_F(SlurmEngineTest, ANewHostIsOnTheMapAndOneThatIsGoneTakesNoRun) {
  const auto engine = make_engine();
  const auto sees = [&](const std::string& host) {
    return eventually([&] {
      const auto listed = engine->list();
      return listed && listed->map && map::find_host(*listed->map, host) != nullptr;
    });
  };
  EXPECT_TRUE(sees("n1"));
  slurm_->set_hosts("n2|idle|(null)|4|1000|n2|all|(null)|none\n");
  EXPECT_TRUE(sees("n2"));
  EXPECT_EQ(engine->list()->why_closed("n1"), "Slurm no longer has it in the partition");
}

TEST_F(SlurmEngineTest, AMissingProgramOfSlurmKeepsTheRunWithAReason) {
  slurm_->set_answer(Error{Code::not_found, "there is no program sbatch"}, false);
  const auto engine = make_engine();
  engine->submit(gang_of_one());
  EXPECT_TRUE(reaches(*engine, model::NodePhase::pending, "there is no program sbatch"));
}

TEST_F(SlurmEngineTest, WithoutAFolderForItsFilesARunWaitsWithAReason) {
  ASSERT_TRUE(make_folders(home_));
  ASSERT_TRUE(write_file(home_ / "runs", "a file in the place of the folder"));
  const auto engine = make_engine();
  engine->submit(gang_of_one());
  EXPECT_TRUE(reaches(*engine, model::NodePhase::pending, "making the folder"));
  EXPECT_EQ(slurm_->count("sbatch"), 0);
}

TEST_F(SlurmEngineTest, AGangOnHostsOfTwoPartitionsIsRefused) {
  slurm_->set_hosts(
      "n1|idle|(null)|4|1000|n1|cpu|(null)|none\n"
      "n2|idle|gpu:4|4|1000|n2|a100|(null)|none\n");
  const auto engine = make_engine(std::chrono::milliseconds(5),
                                  {{"a100", map::DeviceKind::gpu}, {"cpu", map::DeviceKind::core}});
  Gang gang = gang_of_one();
  gang.nodes.push_back(gang.nodes[0]);
  gang.nodes[1].index = 1;
  gang.nodes[1].host = "n2";
  engine->submit(gang);
  EXPECT_TRUE(reaches(*engine, model::NodePhase::gone, "several partitions of Slurm (a100, cpu)"));
}

TEST_F(SlurmEngineTest, APendingNodeIsKilledWithItsJobAndARunningOneByItsStep) {
  const auto engine = make_engine();
  engine->submit(gang_of_one());
  EXPECT_TRUE(reaches(*engine, model::NodePhase::pending, "Resources"));
  engine->kill(node_);
  EXPECT_TRUE(eventually([&] { return slurm_->was_called({"scancel", "7"}); }));
  slurm_->set_job("RUNNING", "7.0|node-0|n1\n");
  EXPECT_TRUE(reaches(*engine, model::NodePhase::present));
  engine->kill(node_);
  EXPECT_TRUE(eventually([&] { return slurm_->was_called({"scancel", "7.0"}); }));
}

}  // namespace
}  // namespace lockstep::engine
