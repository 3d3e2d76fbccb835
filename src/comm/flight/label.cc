#include "comm/flight/label.h"

#include <algorithm>
#include <cstring>

namespace lockstep {
namespace {

constinit thread_local FlightLabel::Words current_label{};

}  // namespace

FlightLabel::FlightLabel(std::string_view label) noexcept : outer_(current_label) {
  current_label = {};
  std::memcpy(current_label.data(), label.data(), std::min(label.size(), kBytes));
}

FlightLabel::~FlightLabel() { current_label = outer_; }

const FlightLabel::Words& FlightLabel::current() noexcept { return current_label; }

}  // namespace lockstep
