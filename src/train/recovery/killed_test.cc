// Ranks as processes, of which one is killed at a given point of a step. The others continue, and
// reach the same result as one process without failures.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <torch/nn/module.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"
#include "base/random.h"
#include "comm/device/device_backend.h"
#include "comm/fabric/cut_connections_for_test.h"
#include "comm/rendezvous/server.h"
#include "net/crypto.h"
#include "train/checkpoint/checkpointer.h"
#include "train/checkpoint/format/layouts_for_test.h"
#include "train/checkpoint/resume.h"
#include "train/data/batch.h"
#include "train/optimizer/gradient_norm.h"
#include "train/optimizer/optimizer.h"
#include "train/ranks_for_test.h"
#include "train/recovery/dying_optimizer_for_test.h"
#include "train/recovery/processes_for_test.h"
#include "train/recovery/recovery.h"
#include "train/simulated_device/nccl_like.h"
#include "train/simulated_device/simulated_device.h"

namespace lockstep::train {
namespace {

using doomed_for_test::DyingOptimizer;
using layouts_for_test::Folder;
using processes_for_test::Process;
using processes_for_test::say;
using namespace std::chrono_literals;

constexpr int kRanks = 4;
constexpr int kBatch = 12;
constexpr int kSteps = 8;
constexpr int kDeadly = 4;  // the step in which a rank is killed
constexpr auto kBound = 30s;
// A recovery takes well under a second; a wait for a dead rank takes
// RecoveryOptions::rendezvous_timeout.
constexpr auto kSoon = 10s;

// The point at which it is killed.
enum class Point { gather, hop1, hop2, norm, behind, save, random, decided };

struct Scenario {
  std::string policy = "ddp";
  RecoveryMode on_failure = RecoveryMode::shrink;
  int victim = 1;
  int second = -1;  // killed when it has recovered from that, before it opens its checkpoints
  int late = -1;  // at Point::decided: the rank that does not get the decision that all others got
  Point point = Point::gather;
  std::uint64_t seed = 0;  // of a random point
  BatchScaling batch = BatchScaling::fixed;
  bool names_folder = true;  // of checkpoints
  bool saves = true;
  bool kills_replacement = false;  // while it gets its state; then another comes
  bool dies_at_the_start = false;  // the victim, when it has joined, before the first rendezvous
  // another that is killed there; its first replacement is killed as soon as it has joined
  int also = -1;
  bool cuts = false;       // the victim loses its connections, and lives
  bool on_device = false;  // each rank has a simulated device, and a backend like NCCL for it
};

at::Tensor wave(at::IntArrayRef shape, double phase) {
  return at::sin(at::arange(c10::multiply_integers(shape), at::kDouble) * 1.7 + phase).view(shape);
}

class Layer : public torch::nn::Module {
 public:
  explicit Layer(double phase, at::Device device) {
    weight = register_parameter("weight", (wave({7, 7}, phase) * 0.5).to(device));
    bias = register_parameter("bias", (wave({7}, phase + 0.1) * 0.5).to(device));
  }
  at::Tensor forward(const at::Tensor& x) {
    in_forward();
    auto y = at::tanh(at::linear(x, weight, bias));
    if (y.requires_grad()) y.register_hook([this](const at::TensorBase&) { in_backward(); });
    return y;
  }

  at::Tensor weight, bias;
  std::function<void()> in_forward = [] {}, in_backward = [] {};
};

class Net : public torch::nn::Module {
 public:
  explicit Net(at::Device device) {
    for (int i = 0; i < 3; ++i)
      layers.push_back(
          register_module(format("layer{}", i), std::make_shared<Layer>(0.3 + i, device)));
    last = register_parameter("last", wave({1, 7}, 0.6).to(device));
    seen = register_buffer("seen", at::zeros({1}, at::kDouble).to(device));
  }
  std::vector<torch::nn::Module*> blocks() const {
    std::vector<torch::nn::Module*> all;
    for (const auto& layer : layers) all.push_back(layer.get());
    return all;
  }
  at::Tensor loss(ShardedModel& model, const std::vector<std::int64_t>& samples) {
    std::vector<at::Tensor> rows;
    for (auto sample : samples) rows.push_back(wave({7}, static_cast<double>(sample)));
    auto x = at::stack(rows).to(last.device());
    for (const auto& layer : layers) x = model(*layer, x);
    return at::linear(x, last).square().mean();
  }

  std::vector<std::shared_ptr<Layer>> layers;
  at::Tensor last, seen;
};

// The part that a rank plays in the scenario.
enum class Fate { lives, dies, dies_second, dies_on_arrival };

// The program of each rank, and of the reference process without failures.
class Program {
 public:
  Program(Scenario scenario, std::filesystem::path folder, int report, Fate fate)
      : scenario_(std::move(scenario)),
        folder_(std::move(folder)),
        report_(report),
        mortal_(fate == Fate::dies),
        second_(fate == Fate::dies_second),
        dies_on_arrival_(fate == Fate::dies_on_arrival),
        net_(device_of(scenario_)) {}

  Result<void> run() {
    at::set_num_threads(1);
    auto options = TRY(recovery_options_from_environment());
    options.peer_timeout = kBound;
    options.replacement_timeout = kBound;
    if (scenario_.names_folder) options.checkpoint_folder = folder_;
    options.batch_scaling = scenario_.batch;
    recovery_ = TRY(Recovery::start(options));
    if (dies_on_arrival_) std::raise(SIGKILL);
    auto mesh = alone() ? Mesh::single() : TRY(recovery_->mesh());
    const auto policy = TRY(parse_policy(alone() ? "ddp" : scenario_.policy, mesh.world_size()));
    model_ = TRY(shard(net_, mesh, policy, net_.blocks(), recovery_->initial_values()));
    optimizer_ = TRY(
        Optimizer::create(*model_, {.method = AdamW{}, .learning_rate = 0.02, .clip_norm = 0.5}));
    say(report_, "policy " + text(model_->policy(), mesh.world_size()));
    joined_ = recovery_->is_replacement();
    if (joined_) {
      step_ = TRY(complete());
    } else {
      step_ = TRY(resume(folder_, *model_, *optimizer_, sampler_));
      TRY(open_checkpoints());
    }
    while (step_ < kSteps) {
      if (alone() && step_ + 1 == kDeadly && scenario_.batch == BatchScaling::rescaled) rescale();
      TRY(recovery_->begin_step(step_, training()));
      const auto done = train_step();
      if (done) continue;
      say(report_, "broken");
      const auto begun = std::chrono::steady_clock::now();
      const auto decided = optimizer_->decided_steps();
      const auto recovered = TRY(recovery_->recover(done.error(), training()));
      if (std::chrono::steady_clock::now() - begun > kSoon) say(report_, "too long");
      if (optimizer_->decided_steps() > decided) say(report_, "caught up");
      say(report_, format("recovered {}", recovered.description));
      if (recovered.leaves) return {};
      step_ = recovered.step;
    }
    TRY(checkpoints_->finish());
    say(report_, format("end {:.17g}", TRY(checksum())));
    return {};
  }

 private:
  static at::Device device_of(const Scenario& scenario) {
    if (!scenario.on_device) return at::kCPU;
    std::signal(SIGPIPE, SIG_IGN);  // Gloo writes to connections that are cut
    simulated_device::install();
    comm::register_device_backend(
        c10::kPrivateUse1, {simulated_device::NcclLikeBackend::kName, [](const auto& request) {
                              return ranks_for_test::nccl_like(request.store, request.rank,
                                                               request.size);
                            }});
    return simulated_device::device(std::stoi(std::getenv("RANK")));
  }
  static bool alone() { return std::getenv("LOCKSTEP_RENDEZVOUS") == nullptr; }
  RecoverableTraining training() { return training_by(*optimizer_); }
  RecoverableTraining training_by(ResumableOptimizer& optimizer) {
    return {*model_, optimizer, sampler_, [this] { return reopen(); }};
  }

  Result<std::int64_t> complete() {
    DyingOptimizer doomed(*optimizer_);
    ResumableOptimizer& optimizer =
        mortal_ ? static_cast<ResumableOptimizer&>(doomed) : *optimizer_;
    return TRY(recovery_->complete_replacement(training_by(optimizer))).step;
  }

  Result<void> reopen() {
    if (second_) std::raise(SIGKILL);
    return open_checkpoints();
  }

  Result<void> open_checkpoints() {
    checkpoints_.reset();
    auto group = alone() ? Comm() : TRY(recovery_->new_group(kBound));
    const Writer writer{.run = "demo/1", .attempt = 1, .recoveries = recovery_->generation()};
    checkpoints_ = TRY(Checkpointer::open({.folder = folder_, .writer = writer}, std::move(group)));
    return {};
  }

  // As three of four ranks continue.
  void rescale() {
    sampler_.set_global_batch(kBatch * 3 / 4);
    optimizer_->scale_learning_rate(0.75);
  }

  Result<void> train_step() {
    auto& mesh = model_->mesh();
    const bool deadly = mortal_ && step_ + 1 == kDeadly;
    if (deadly) arm();
    if (mortal_ && step_ + 1 == kSteps) die_at(Point::random);  // at the latest
    const auto parts = TRY(micro_batches_of({sampler_.global_batch(), kBatch / kRanks}, mesh.rank(),
                                            mesh.world_size()));
    double sum = 0;
    for (const auto& part : parts) {
      const auto loss = net_.loss(*model_, sampler_.peek(part.begin, part.end)) * part.weight;
      sum += loss.item<double>() / static_cast<double>(parts.size());
      TRY(model_->backward(loss, &part == &parts.back() ? Sync::now : Sync::later));
    }
    if (deadly) die_at(Point::hop2);
    TRY(model_->finish_gradients());
    const double loss =
        TRY(mesh.world().all_reduce(sum, ReduceOp::sum, "loss")) / mesh.world_size();
    if (deadly) die_at(Point::norm);
    if (scenario_.point == Point::decided && step_ + 1 == kDeadly && !joined_ && !alone() &&
        !std::exchange(broke_, true))
      return break_after_the_decision();
    TRY(optimizer_->step());
    if (deadly) die_at(Point::behind);
    sampler_.advance();
    ++step_;
    if (mesh.rank() == 0) say(report_, format("step {} {:.17g}", step_, loss));
    if (!scenario_.saves) return {};
    const auto saved = checkpoints_->save(state_of(step_, *model_, *optimizer_, sampler_));
    if (deadly) die_at(Point::save);
    if (!saved) return saved.error();
    return {};
  }

  // All decide on the step, but one does not get the decision. Then another is killed: once all
  // others have decided, which its second reduction shows; those of the others may fail then.
  Result<void> break_after_the_decision() {
    const bool late = std::getenv("RANK") == std::to_string(scenario_.late);
    if (late)
      static_cast<void>(global_gradient_norm(*model_));  // takes part in the others' decision
    else
      TRY(optimizer_->step());
    static_cast<void>(
        model_->mesh().world().all_reduce(0, ReduceOp::sum, "all others have decided"));
    if (mortal_) die_at(Point::decided);
    if (late) TRY(optimizer_->step());  // waits for the rank that is gone
    return Error{Code::peer_lost, "somebody is about to die"};
  }

  void arm() {
    auto& layer = *net_.layers[1];
    layer.in_forward = [this] { die_at(Point::gather); };
    layer.in_backward = [this] { die_at(Point::hop1); };
    if (scenario_.point != Point::random) return;
    const auto moment = Duration(Random(scenario_.seed).below(8000));
    std::thread([moment] {
      std::this_thread::sleep_for(moment);
      std::raise(SIGKILL);
    }).detach();
  }
  void die_at(Point point) {
    if (point != scenario_.point) return;
    if (!scenario_.cuts) std::raise(SIGKILL);
    const std::string place = std::getenv("LOCKSTEP_RENDEZVOUS");
    if (!std::exchange(was_cut_, true))
      comm::cut_connections(
          static_cast<std::uint16_t>(std::stoi(place.substr(place.rfind(':') + 1))));
  }

  // Over all parameters, each counted once.
  Result<double> checksum() {
    const at::NoGradGuard no_grad;
    double sum = 0;
    for (const auto& owned : model_->state()) {
      if (!owned.name.starts_with("parameter/")) continue;
      sum += (owned.tensor * owned.tensor).sum().item<double>();
    }
    auto& mesh = model_->mesh();
    sum = TRY(mesh.world().all_reduce(sum, ReduceOp::sum, "checksum"));
    return sum * model_->policy().optimizer / mesh.world_size();
  }

  const Scenario scenario_;
  const std::filesystem::path folder_;
  const int report_;
  const bool mortal_, second_, dies_on_arrival_;
  Net net_;
  Sampler sampler_ = Sampler::create(1000, kBatch, 3).value();
  std::unique_ptr<Recovery> recovery_;
  std::unique_ptr<ShardedModel> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Checkpointer> checkpoints_;
  std::int64_t step_ = 0;
  bool joined_ = false;  // as a replacement
  bool was_cut_ = false;
  bool broke_ = false;  // at Point::decided; the step may be repeated
};

// The values that the ranks reported, combined.
struct ReportedValues {
  std::map<int, std::vector<double>> losses;  // by step
  std::vector<double> ends;
  std::string all;

  void add(const std::string& name, const std::string& text) {
    all += format("--- {}\n{}", name, text);
    std::size_t begin = 0;
    for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
      const auto line = text.substr(begin, end - begin);
      begin = end + 1;
      int step = 0;
      double value = 0;
      if (std::sscanf(line.c_str(), "step %d %lf", &step, &value) == 2)
        losses[step].push_back(value);
      if (std::sscanf(line.c_str(), "end %lf", &value) == 1) ends.push_back(value);
    }
  }
};

// In a separate process: this one must not start threads, because it forks.
ReportedValues alone(const Scenario& scenario) {
  Folder folder;
  auto process = Process::start(
      [&](int report) { return Program(scenario, folder, report, Fate::lives).run(); });
  ReportedValues told;
  told.add("alone", process.read_all(Deadline::after(kBound)));
  return told;
}

const ReportedValues& undisturbed() {
  static const ReportedValues told = alone(Scenario());
  return told;
}

// The ranks' reports to their agent, which reads them when they have ended.
class ReportsForTest {
 public:
  explicit ReportsForTest(const std::filesystem::path& path) : path_(path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    LS_CHECK(path_.size() < sizeof address.sun_path);
    std::strcpy(address.sun_path, path_.c_str());
    LS_CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    LS_CHECK(::listen(listener_.get(), 64) == 0);
  }
  std::string path() const { return path_; }
  std::string read_all() const {
    std::string all;
    char chunk[4096];
    for (;;) {
      const Fd rank(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!rank) return all;
      for (ssize_t got = 0; (got = ::read(rank.get(), chunk, sizeof chunk)) > 0;)
        all.append(chunk, static_cast<std::size_t>(got));
    }
  }

 private:
  const std::string path_;
  const Fd listener_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
};

class Gang {
 public:
  explicit Gang(Scenario scenario) : scenario_(std::move(scenario)) {
    LS_CHECK(write_file(folder_ / "secret", secret_.hex()).has_value());
  }
  ~Gang() { place_.read_all(Deadline::after(0s)); }

  ReportedValues finish() {
    for (int rank = 0; rank < kRanks; ++rank)
      processes_.push_back(start(rank, false, fate_of(rank)));
    ReportedValues told;
    if (scenario_.on_failure == RecoveryMode::wait && !scenario_.cuts) {
      replace(scenario_.victim, told);
      if (scenario_.second >= 0) replace(scenario_.second, told);
      if (scenario_.also >= 0) replace(scenario_.also, told);
    }
    const auto deadline = Deadline::after(kBound);
    for (int rank = 0; rank < kRanks; ++rank)
      told.add(format("rank {}", rank), process(rank).read_all(deadline));
    told.add("agent", agent_.read_all());
    return told;
  }

 private:
  Fate fate_of(int rank) const {
    const bool dies = rank == scenario_.victim || rank == scenario_.also;
    if (dies && scenario_.dies_at_the_start) return Fate::dies_on_arrival;
    if (dies) return Fate::dies;
    return rank == scenario_.second ? Fate::dies_second : Fate::lives;
  }
  Process& process(int rank) { return processes_[static_cast<std::size_t>(rank)]; }

  // Once it has died.
  void replace(int rank, ReportedValues& told) {
    told.add(format("dead rank {}", rank), process(rank).read_all(Deadline::after(kBound)));
    if (scenario_.kills_replacement || rank == scenario_.also) {
      const auto fate = scenario_.kills_replacement ? Fate::dies : Fate::dies_on_arrival;
      told.add("doomed", start(rank, true, fate).read_all(Deadline::after(kBound)));
    }
    process(rank) = start(rank, true, Fate::lives);
  }

  // In a separate process, so that this one has no thread whose locks a fork would copy.
  Process start_place() const {
    return Process::start([&](int report) -> Result<void> {
      const auto server = TRY(comm::RendezvousServer::start("127.0.0.1", 0, secret_));
      say(report, format("{}", server->port()));
      ::alarm(600);  // if no process is left to kill it
      for (;;) ::pause();
    });
  }

  Process start(int rank, bool replaces, Fate fate) {
    return Process::start([&, rank, replaces, fate](int report) {
      const std::map<std::string, std::string> environment{
          {"RANK", format("{}", rank)},
          {"WORLD_SIZE", format("{}", kRanks)},
          {"LOCKSTEP_RENDEZVOUS", format("127.0.0.1:{}", port_)},
          {"LOCKSTEP_SECRET_FILE", (folder_ / "secret").string()},
          {"LOCKSTEP_HOST_ID", "test"},
          {"LOCKSTEP_ADDRESS", "127.0.0.1"},
          {"LOCKSTEP_ON_FAILURE", scenario_.on_failure == RecoveryMode::wait ? "wait" : "shrink"},
          {"LOCKSTEP_REPLACES", replaces ? "1" : "0"},
          {"LOCKSTEP_REPORT", agent_.path()}};
      for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
      return Program(scenario_, folder_ / "checkpoints", report, fate).run();
    });
  }

  const Scenario scenario_;
  Folder folder_;
  const ReportsForTest agent_{folder_ / "report"};
  const net::Secret secret_ = net::Secret::random();
  Process place_ = start_place();
  const std::string port_ = place_.read_line(Deadline::after(kBound));
  std::vector<Process> processes_;  // by rank
};

// `ends`: how many ranks train to the end.
void expect_undisturbed(const ReportedValues& told, std::size_t ends,
                        const ReportedValues& right = undisturbed()) {
  ASSERT_EQ(right.losses.size(), std::size_t{kSteps}) << right.all;
  for (const auto& [step, losses] : right.losses) {
    const auto found = told.losses.find(step);
    if (found == told.losses.end()) {
      // The rank that reports it was killed, or took the step later.
      EXPECT_NE(told.all.find(format("after step {} ", step)), std::string::npos) << told.all;
      continue;
    }
    for (double loss : found->second)
      EXPECT_NEAR(loss, losses.front(), 1e-9) << "step " << step << "\n" << told.all;
  }
  EXPECT_GE(told.losses.size() + 1, right.losses.size()) << told.all;
  EXPECT_EQ(told.ends.size(), ends) << told.all;
  for (double end : told.ends) EXPECT_NEAR(end, right.ends.at(0), 1e-9) << told.all;
}

std::string name_of(Point point) {
  constexpr const char* names[] = {"InAGather",     "InHop1",  "InHop2",   "InTheNorm",
                                   "BehindTheStep", "InASave", "AtRandom", "Decided"};
  return names[static_cast<int>(point)];
}

class Killed : public testing::TestWithParam<Point> {};
class KilledInFew : public Killed {};

INSTANTIATE_TEST_SUITE_P(Points, Killed,
                         testing::Values(Point::gather, Point::hop1, Point::hop2, Point::norm,
                                         Point::behind, Point::save),
                         [](const auto& of) { return name_of(of.param); });
INSTANTIATE_TEST_SUITE_P(Points, KilledInFew,
                         testing::Values(Point::hop1, Point::norm, Point::behind),
                         [](const auto& of) { return name_of(of.param); });

TEST_P(Killed, TheReplicasThatAreLeftGoOn) {
  expect_undisturbed(Gang({.policy = "mics:2", .victim = 1, .point = GetParam()}).finish(), 2);
}

TEST_P(KilledInFew, TheOtherThreeGoOnWhereEachHasEverything) {
  expect_undisturbed(Gang({.policy = "ddp", .victim = 0, .point = GetParam()}).finish(), 3);
}

TEST_P(KilledInFew, AnotherTakesItsPlaceWithTheStateOfAReplica) {
  const auto told =
      Gang({.policy = "mics:2", .on_failure = RecoveryMode::wait, .victim = 2, .point = GetParam()})
          .finish();
  expect_undisturbed(told, kRanks);
  EXPECT_NE(told.all.find("from memory"), std::string::npos) << told.all;
}

TEST_P(KilledInFew, RanksThatOnlyLostConnectionsConnectAgainAndAllGoOn) {
  for (const auto on_failure : {RecoveryMode::shrink, RecoveryMode::wait}) {
    const auto told = Gang({.policy = "mics:2",
                            .on_failure = on_failure,
                            .victim = 2,
                            .point = GetParam(),
                            .cuts = true})
                          .finish();
    expect_undisturbed(told, kRanks);
    EXPECT_NE(told.all.find("the ranks lost connections to each other and connected again"),
              std::string::npos)
        << told.all;
    EXPECT_EQ(told.all.find("died"), std::string::npos) << told.all;
  }
}

// It chooses no policy: the other ranks do not choose again.
TEST(Recovery, ARankInPlaceOfAnotherTakesThePolicyThatAutoChoseBefore) {
  const auto told = Gang({.policy = "auto:8KiB",
                          .on_failure = RecoveryMode::wait,
                          .victim = 2,
                          .point = Point::hop1})
                        .finish();
  expect_undisturbed(told, kRanks);
  EXPECT_EQ(told.all.find("too long"), std::string::npos) << told.all;
  EXPECT_NE(told.all.find("--- rank 2\npolicy mics:2 (2, 2, 2)"), std::string::npos) << told.all;
}

// A rank is at most one step behind, and then has complete gradients: it takes the step with the
// norm that the others send.
TEST(Recovery, WhoMissedADecisionThatOthersGotTakesTheStepToo) {
  for (const Scenario& scenario :
       {Scenario{.victim = 1, .late = 0, .point = Point::decided},
        Scenario{
            .on_failure = RecoveryMode::wait, .victim = 3, .late = 1, .point = Point::decided}}) {
    const auto told = Gang(scenario).finish();
    expect_undisturbed(told, scenario.on_failure == RecoveryMode::wait ? 4 : 3);
    EXPECT_NE(told.all.find("caught up"), std::string::npos) << told.all;
    EXPECT_NE(told.all.find("after step 4 from memory"), std::string::npos) << told.all;
  }
}

// Most of the others have no transfer, and go back with those that have.
TEST(Recovery, ARankThatDiesWhileItGetsItsStateIsReplacedToo) {
  for (const char* policy : {"ddp", "mics:2"}) {
    SCOPED_TRACE(policy);
    const auto told = Gang({.policy = policy,
                            .on_failure = RecoveryMode::wait,
                            .victim = 2,
                            .point = Point::hop1,
                            .kills_replacement = true})
                          .finish();
    expect_undisturbed(told, kRanks);
    EXPECT_NE(told.all.find("from memory"), std::string::npos) << told.all;
  }
}

// No rank has connected to it in the new groups, and no rank waits until the timeout. One
// description covers both failures.
TEST(Recovery, ARankThatDiesBetweenTheRecoveryAndTheOpeningOfTheCheckpointsIsRecoveredFromToo) {
  for (const int second : {0, 2, 3}) {
    SCOPED_TRACE(second);
    const auto told = Gang({.policy = "ddp", .second = second, .point = Point::hop1}).finish();
    expect_undisturbed(told, 2);
    EXPECT_EQ(told.all.find("too long"), std::string::npos) << told.all;
    EXPECT_NE(told.all.find(
                  format("ranks {} and {} were lost", second == 0 ? 0 : 1, std::max(second, 1))),
              std::string::npos)
        << told.all;
  }
}

TEST(Recovery, SoIsOneWhoseReplacementsAreWaitedFor) {
  const auto told = Gang({.policy = "mics:2",
                          .on_failure = RecoveryMode::wait,
                          .victim = 1,
                          .second = 2,
                          .point = Point::hop1})
                        .finish();
  expect_undisturbed(told, kRanks);
  EXPECT_EQ(told.all.find("too long"), std::string::npos) << told.all;
  EXPECT_NE(told.all.find("ranks 1 and 2 died and were started again"), std::string::npos)
      << told.all;
}

// Rank 1's replacement has no model yet when rank 2's dies: it repeats the rendezvous.
TEST(Recovery, AReplacementThatMakesGroupsWhenAnotherRankDiesComesInOnceMore) {
  for (const char* policy : {"ddp", "mics:2"}) {
    SCOPED_TRACE(policy);
    const auto told = Gang({.policy = policy,
                            .on_failure = RecoveryMode::wait,
                            .victim = 1,
                            .point = Point::hop1,
                            .also = 2})
                          .finish();
    expect_undisturbed(told, kRanks);
    EXPECT_EQ(told.all.find("too long"), std::string::npos) << told.all;
    EXPECT_EQ(told.all.find("fault"), std::string::npos) << told.all;
    EXPECT_NE(told.all.find("ranks 1 and 2 died and were started again"), std::string::npos)
        << told.all;
  }
}

TEST(Recovery, WhatNobodyElseHoldsComesFromStorage) {
  const auto told =
      Gang({.policy = "zero3", .on_failure = RecoveryMode::wait, .victim = 3, .point = Point::norm})
          .finish();
  expect_undisturbed(told, kRanks);
  EXPECT_NE(told.all.find("from a checkpoint"), std::string::npos) << told.all;
}

// Their processes live on: only the layout changes.
TEST(Recovery, WhatNobodyElseHoldsFewerRanksReadFromStorage) {
  for (const char* policy : {"zero1", "zero2", "zero3", "mics:2+opt"}) {
    SCOPED_TRACE(policy);
    const auto told = Gang({.policy = policy, .victim = 3, .point = Point::hop1}).finish();
    const bool of_pairs = std::string_view(policy).starts_with("mics");
    expect_undisturbed(told, of_pairs ? 2 : 3);
    EXPECT_NE(told.all.find("from a checkpoint"), std::string::npos) << told.all;
  }
}

TEST(Recovery, StepsBehindTheCheckpointAreDoneAgainAndSaidToBe) {
  // All have decided on step 4 when rank 2 is killed, and no checkpoint of it exists.
  const auto told = Gang({.policy = "zero3", .victim = 2, .point = Point::decided}).finish();
  expect_undisturbed(told, 3);
  const bool one = told.all.find("(step 4 is done again)") != std::string::npos;
  const bool two = told.all.find("(steps 3 to 4 are done again)") != std::string::npos;
  EXPECT_TRUE(one || two) << told.all;
}

TEST(Recovery, WithoutAFolderOfCheckpointsTheOthersEnd) {
  const auto told =
      Gang({.policy = "zero3", .victim = 3, .point = Point::hop1, .names_folder = false}).finish();
  EXPECT_TRUE(told.ends.empty()) << told.all;
  EXPECT_NE(told.all.find("no living rank holds shard 3 of 4"), std::string::npos) << told.all;
  EXPECT_NE(told.all.find(R"("fault":"connection_lost")"), std::string::npos) << told.all;
  EXPECT_NE(told.all.find(R"("rank":3)"), std::string::npos) << told.all;
}

// A rank that dies before it has joined leaves no report: its agent reports it.
TEST(Recovery, ADeathBeforeTheFirstStepEndsTheOthersAsALoss) {
  for (const auto mode : {RecoveryMode::shrink, RecoveryMode::wait}) {
    const auto told = Gang({.on_failure = mode, .dies_at_the_start = true}).finish();
    EXPECT_TRUE(told.ends.empty()) << told.all;
    EXPECT_NE(told.all.find(R"("fault":"connection_lost")"), std::string::npos) << told.all;
    EXPECT_NE(told.all.find(R"("rank":1)"), std::string::npos) << told.all;
  }
}

TEST(Recovery, WithoutACheckpointTheOthersEnd) {
  for (const auto mode : {RecoveryMode::shrink, RecoveryMode::wait}) {
    const auto told = Gang({.policy = "zero3",
                            .on_failure = mode,
                            .victim = 3,
                            .point = Point::hop1,
                            .saves = false})
                          .finish();
    EXPECT_TRUE(told.ends.empty()) << told.all;
    EXPECT_NE(told.all.find("has no checkpoint yet"), std::string::npos) << told.all;
  }
}

// Like one process with three quarters of the batch and of the rate from that step on.
TEST(Recovery, FewerRanksTakeASmallerBatchAtASmallerRateIfTheyAreToldTo) {
  const Scenario scenario{
      .policy = "ddp", .victim = 1, .point = Point::hop1, .batch = BatchScaling::rescaled};
  const auto told = Gang(scenario).finish();
  expect_undisturbed(told, 3, alone(scenario));
  EXPECT_NE(told.all.find("the global batch is 9 samples now, the learning rate 0.75 of what"),
            std::string::npos)
      << told.all;
}

class KilledOnADevice : public Killed {};
INSTANTIATE_TEST_SUITE_P(Points, KilledOnADevice,
                         testing::Values(Point::gather, Point::hop2, Point::save),
                         [](const auto& of) { return name_of(of.param); });

// The kernels of the others wait for the dead rank until their groups are aborted.
TEST_P(KilledOnADevice, TheOthersGoOn) {
  for (const char* policy : {"ddp", "mics:2", "zero3"}) {
    SCOPED_TRACE(policy);
    const auto told =
        Gang({.policy = policy, .victim = 1, .point = GetParam(), .on_device = true}).finish();
    expect_undisturbed(told, std::string_view(policy) == "mics:2" ? 2 : 3);
    EXPECT_EQ(told.all.find("too long"), std::string::npos) << told.all;
    EXPECT_NE(told.all.find("rank 1 "), std::string::npos) << told.all;
  }
}

TEST_P(KilledOnADevice, AnotherTakesItsPlaceWithTheStateOfAReplica) {
  const auto told = Gang({.policy = "mics:2",
                          .on_failure = RecoveryMode::wait,
                          .victim = 2,
                          .point = GetParam(),
                          .on_device = true})
                        .finish();
  expect_undisturbed(told, kRanks);
  EXPECT_NE(told.all.find("from memory"), std::string::npos) << told.all;
}

TEST(Recovery, RanksWithDevicesThatOnlyLostConnectionsConnectAgain) {
  const auto told =
      Gang({.policy = "mics:2", .victim = 2, .point = Point::hop1, .cuts = true, .on_device = true})
          .finish();
  expect_undisturbed(told, kRanks);
  EXPECT_EQ(told.all.find("died"), std::string::npos) << told.all;
}

TEST(Recovery, KilledAtAnyMomentTheOthersGoOn) {
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    expect_undisturbed(Gang({.policy = seed % 2 == 0 ? "ddp" : "mics:2",
                             .victim = static_cast<int>(seed),
                             .point = Point::random,
                             .seed = seed})
                           .finish(),
                       seed % 2 == 0 ? 3 : 2);
}

}  // namespace
}  // namespace lockstep::train
