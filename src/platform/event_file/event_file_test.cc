#include "platform/event_file/event_file.h"

#include <cmath>

#include <gtest/gtest.h>

using namespace lockstep;
using namespace lockstep::event_file;

namespace {

struct Collected : EventSink {
  struct Scalar {
    std::int64_t step;
    Time time;
    std::string tag;
    double value;
    bool operator==(const Scalar&) const = default;
  };
  void add(const EventScalar& scalar) override {
    scalars.push_back({scalar.step, scalar.time, std::string(scalar.tag), scalar.value});
  }
  void add(EventImage image) override { images.push_back(std::move(image)); }
  void add(EventHistogram histogram) override { histograms.push_back(std::move(histogram)); }

  std::vector<Scalar> scalars;
  std::vector<EventImage> images;
  std::vector<EventHistogram> histograms;
};

constexpr Time kTime{std::chrono::microseconds(1'790'000'000'250'000)};

// Reads whole records, and returns their size.
Result<std::size_t> read_all(EventReader& reader, std::string_view bytes, EventSink& sink) {
  std::size_t done = 0;
  for (std::size_t size = 1; size != 0; done += size)
    size = TRY(reader.next(bytes.substr(done), sink));
  return done;
}

std::string file_of_two_losses() {
  return first_record(kTime) + scalar_record({1, kTime, "train/loss", 0.1}) +
         scalar_record({-2, kTime, "train/loss", 1e300});
}

TEST(EventFile, WhatWasWrittenIsReadExactly) {
  Collected all;
  EventReader reader;
  const std::string file = file_of_two_losses() +
                           histogram_record({3, kTime, "w", {0, 1, 4}, {5, 6}}) +
                           image_record({4, kTime, "picture", 0, "PNG"});
  EXPECT_EQ(read_all(reader, file, all).value(), file.size());
  const std::vector<Collected::Scalar> expected = {{1, kTime, "train/loss", 0.1},
                                                   {-2, kTime, "train/loss", 1e300}};
  EXPECT_EQ(all.scalars, expected);
  ASSERT_EQ(all.histograms.size(), 1u);
  EXPECT_EQ(all.histograms[0].edges, (std::vector<double>{0, 1, 4}));
  EXPECT_EQ(all.histograms[0].counts, (std::vector<double>{5, 6}));
  ASSERT_EQ(all.images.size(), 1u);
  EXPECT_EQ(all.images[0].bytes, "PNG");
}

TEST(EventFile, AFileThatGrowsIsReadRecordByRecord) {
  const std::string file = file_of_two_losses();
  Collected all;
  EventReader reader;
  std::size_t done = 0;
  for (std::size_t size = 0; size <= file.size(); ++size) {
    done += read_all(reader, std::string_view(file).substr(done, size - done), all).value();
  }
  EXPECT_EQ(done, file.size());
  EXPECT_EQ(all.scalars.size(), 2u);
}

TEST(EventFile, ADamagedRecordIsAnErrorAndThoseBeforeItAreRead) {
  std::string file = file_of_two_losses();
  file[file.size() - 6] ^= 1;
  Collected all;
  EventReader reader;
  const auto damaged = read_all(reader, file, all);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, Code::corrupt);
  EXPECT_EQ(all.scalars.size(), 1u);
}

}  // namespace
