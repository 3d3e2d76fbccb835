// The series store in a process of its own: a JSON line a measurement.
//
//   bench_series FOLDER     (stores are made in it)
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/format.h"
#include "base/random.h"
#include "platform/insight/series/folder_series.h"

namespace lockstep::bench {
namespace {

using namespace insight;
namespace fs = std::filesystem;

const model::RunId kRun{"bench", 1};
constexpr std::int64_t kStart = 1'700'000'000'000'000;

struct Took {
  double wall = 0, processor = 0;  // seconds; the processor's are of this thread
};

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Took time_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  const double processor = processor_seconds();
  work();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
          processor_seconds() - processor};
}

void show(const std::string& what, const char* unit, double ours) {
  std::printf("{\"bench\": \"series\", \"case\": \"%s\", \"unit\": \"%s\", \"ours\": %.6g}\n",
              what.c_str(), unit, ours);
  std::fflush(stdout);
}

void show(const std::string& what, const Took& took) {
  std::printf(
      "{\"bench\": \"series\", \"case\": \"%s\", \"unit\": \"ms\", \"ours\": %.6g, "
      "\"processor_ms\": %.3f}\n",
      what.c_str(), took.wall * 1e3, took.processor * 1e3);
  std::fflush(stdout);
}

// About normal, mean 0, deviation 1.
double noise(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.uniform();
  return sum;
}

std::unique_ptr<SeriesStore> open(const fs::path& folder) {
  return open_folder_series(folder).value();
}

// Seals everything: a store that seals at the first point, and waits until the log is empty.
Bytes sealed_bytes(const fs::path& folder) {
  const auto store = open_folder_series(folder, {.seal = 1_B}).value();
  PointBatch batch{.attempt = {{"seal", 1}, 1}, .source = {}, .series = {}, .points = {}};
  batch.series = {{"x"}};
  batch.points = {{0, {}}};
  (void)store->append(batch).value();
  const auto logs = [&] {
    return std::ranges::count_if(fs::directory_iterator(folder), [](const auto& entry) {
      return entry.path().filename().string().starts_with("log-");
    });
  };
  while (logs() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return store->bytes(kRun);
}

void append_all(SeriesStore& store, const std::vector<PointBatch>& batches, const char* what) {
  std::size_t points = 0;
  const Took took = time_of([&] {
    for (const PointBatch& batch : batches) points += store.append(batch).value().stored;
  });
  show(what, "points/s", static_cast<double>(points) / took.wall);
  show(format("{}, by processor time of the caller", what), "points/s",
       static_cast<double>(points) / took.processor);
}

PointBatch empty_batch() {
  return {.attempt = {kRun, 1}, .source = {}, .series = {}, .points = {}};
}

// The curve as an API would send it: steps, seconds and values in three lists.
std::string json_of(const Curve& curve) {
  std::string out = "{\"steps\":[";
  const auto list = [&](const auto& each) {
    const char* separator = "";
    for (const SeriesPoint& point : curve.points) {
      out += separator;
      each(point);
      separator = ",";
    }
  };
  list([&](const SeriesPoint& p) { fmt::format_to(std::back_inserter(out), "{}", p.step); });
  out += "],\"times\":[";
  list([&](const SeriesPoint& p) {
    fmt::format_to(std::back_inserter(out), "{}",
                   static_cast<double>(p.time.time_since_epoch().count()) * 1e-6);
  });
  out += "],\"values\":[";
  list([&](const SeriesPoint& p) {
    if (std::isfinite(p.value))
      fmt::format_to(std::back_inserter(out), "{}", p.value);
    else
      out += std::isnan(p.value) ? "\"NaN\"" : p.value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  });
  return out + "]}";
}

void one_metric(const fs::path& folder) {
  constexpr int kPoints = 10'000'000, kBatch = 10'000;
  Random random(1);
  std::vector<PointBatch> batches;
  std::int64_t time = kStart;
  for (int step = 0; step < kPoints;) {
    PointBatch batch = empty_batch();
    batch.series = {{"train/loss"}};
    for (int i = 0; i < kBatch; ++i, ++step) {
      time += 350'000 + static_cast<std::int64_t>(2000 * noise(random));
      const double loss = 2 + 8 / std::sqrt(1 + step * 0.001) + 0.05 * noise(random);
      batch.points.push_back(
          {0, {step, Time(Duration(time)), static_cast<double>(static_cast<float>(loss))}});
    }
    batches.push_back(std::move(batch));
  }
  append_all(*open(folder), batches, "one metric, 10 M points");
  batches = {};
  show("one metric, fp32 loss with noise", "bytes/point",
       static_cast<double>(sealed_bytes(folder).count()) / kPoints);
  const auto store = open(folder);
  for (const std::int64_t pixels : {4'000, 10'000}) {
    const CurveQuery query{
        .run = kRun, .series = {"train/loss"}, .epoch = {}, .range = {}, .pixels = pixels};
    for (const char* state : {"first query after opening", "again"}) {
      Curve curve;
      show(format("curve of {} pixels over 10 M points, {}", pixels, state),
           time_of([&] { curve = store->curve(query).value(); }));
      std::string json;
      const Took took = time_of([&] { json = json_of(curve); });
      show(format("its {} points to JSON ({} bytes)", curve.points.size(), json.size()), took);
    }
  }
}

void many_metrics(const fs::path& folder) {
  constexpr int kMetrics = 1000, kSteps = 5000;
  Random random(2);
  std::vector<PointBatch> batches;
  for (int step = 0; step < kSteps; ++step) {
    PointBatch batch = empty_batch();
    for (int m = 0; m < kMetrics; ++m) batch.series.push_back({format("layer/{:03}/norm", m)});
    const Time time(Duration(kStart + step * 350'000 + static_cast<int>(random.below(5000))));
    for (std::uint32_t m = 0; m < kMetrics; ++m)
      batch.points.push_back({m, {step, time, random.uniform()}});
    batches.push_back(std::move(batch));
  }
  append_all(*open(folder), batches, "1,000 metrics a step");
}

// A node of 8 ranks sends 10 metrics of each, several steps at once.
void wide_run(const fs::path& folder) {
  constexpr int kRanks = 8000, kMetrics = 10, kSteps = 50, kAtOnce = 5, kOnNode = 8;
  Random random(3);
  std::vector<PointBatch> batches;
  for (int begin = 0; begin < kSteps; begin += kAtOnce)
    for (int node = 0; node < kRanks / kOnNode; ++node) {
      PointBatch batch = empty_batch();
      for (int rank = 0; rank < kOnNode; ++rank)
        for (int m = 0; m < kMetrics; ++m)
          batch.series.push_back({format("metric/{}", m), RunPart::rank, kOnNode * node + rank});
      for (int step = begin; step < begin + kAtOnce; ++step)
        for (std::uint32_t rank = 0; rank < kOnNode; ++rank) {
          const Time time(
              Duration(kStart + step * 350'000 + static_cast<std::int64_t>(random.below(5000))));
          for (std::uint32_t m = 0; m < kMetrics; ++m)
            batch.points.push_back(
                {rank * kMetrics + m,
                 {step, time, static_cast<double>(static_cast<float>(random.uniform()))}});
        }
      batches.push_back(std::move(batch));
    }
  append_all(*open(folder), batches, "8,000 ranks x 10 metrics");
  show("8,000 ranks x 10 metrics, 50 steps", "bytes/point",
       static_cast<double>(sealed_bytes(folder).count()) / (kRanks * kMetrics * kSteps));
}

// A node's telemetry every 10 s: utilization in whole percent, memory, power with one decimal.
void telemetry(const fs::path& folder) {
  constexpr int kSamples = 100'000, kDevices = 8, kAtOnce = 1000;
  Random random(4);
  std::vector<PointBatch> batches;
  double memory = 70'000;
  for (int begin = 0; begin < kSamples; begin += kAtOnce) {
    PointBatch batch = empty_batch();
    for (int device = 0; device < kDevices; ++device)
      for (const char* name : {"utilization", "memory", "power"})
        batch.series.push_back({format("gpu{}/{}", device, name), RunPart::node, 0});
    for (int sample = begin; sample < begin + kAtOnce; ++sample) {
      const Time time(Duration(kStart + sample * 10'000'000LL +
                               1000 * static_cast<std::int64_t>(random.below(16))));
      for (std::uint32_t device = 0; device < kDevices; ++device) {
        if (random.below(100) == 0) memory += 2.0 * static_cast<double>(random.below(10)) - 9;
        const double values[] = {std::min(100.0, std::round(96 + 3 * noise(random))), memory,
                                 std::round(6200 + 150 * noise(random)) / 10};
        for (std::uint32_t m = 0; m < 3; ++m)
          batch.points.push_back({device * 3 + m, {sample, time, values[m]}});
      }
    }
    batches.push_back(std::move(batch));
  }
  append_all(*open(folder), batches, "telemetry of a node");
  show("telemetry of a node", "bytes/point",
       static_cast<double>(sealed_bytes(folder).count()) / (kSamples * kDevices * 3));
}

}  // namespace
}  // namespace lockstep::bench

int main(int count, char** arguments) {
  using namespace lockstep::bench;
  if (count != 2) {
    std::fprintf(stderr, "usage: bench_series FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = arguments[1];
  one_metric(folder / "one");
  many_metrics(folder / "many");
  wide_run(folder / "wide");
  telemetry(folder / "telemetry");
  return 0;
}
