#include "comm/flight/label.h"

#include <algorithm>
#include <utility>

namespace lockstep::comm {
namespace {

constinit thread_local FlightLabel::Words current_label{};

}  // namespace

FlightLabel::FlightLabel(std::string_view label) noexcept : outer_(exchange(encode(label))) {}

FlightLabel::~FlightLabel() { current_label = outer_; }

const FlightLabel::Words& FlightLabel::current() noexcept { return current_label; }

FlightLabel::Words FlightLabel::exchange(const Words& label) noexcept {
  return std::exchange(current_label, label);
}

FlightLabel::Words FlightLabel::encode(std::string_view label) noexcept {
  Words encoded{};
  std::copy_n(label.begin(), std::min(label.size(), kBytes),
              reinterpret_cast<char*>(encoded.data()));
  return encoded;
}

}  // namespace lockstep::comm
