// Reads pickles that hold only plain values: dictionaries with text as keys, lists, tuples, text,
// numbers, booleans and None, as c10d's flight recorder writes them. A tuple becomes an array.
//
// A pickle is a program for a stack machine, and Python's own machine calls any function that the
// pickle names. This one knows only the operations that build values, and refuses all others.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "text/json.h"

namespace lockstep::comm::torch_dump {

struct PickleLimits {
  // The most text and values that it builds: a pickle can repeat a text by two bytes.
  Bytes built = 512_MiB;
  std::size_t depth = 32;      // nesting of values
  std::size_t members = 4096;  // of a dictionary
};

// Code::corrupt with the reason and the position.
Result<Json> parse_pickle(std::string_view pickle, const PickleLimits& limits = {});

}  // namespace lockstep::comm::torch_dump
