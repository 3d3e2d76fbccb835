// Writes plain values as pickles, as torch does it: text is kept in the memo and repeated from it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "text/json.h"

namespace lockstep::comm::testing_pickle {

class PickleWriter {
 public:
  static std::string pickled(const Json& value) {
    PickleWriter writer;
    writer.text_ = "\x80\x02";
    writer.write(value);
    return writer.text_ + ".";
  }

 private:
  void write(const Json& value) {
    if (value.is_object()) {
      text_ += "}(";
      for (const auto& [name, each] : value.items()) {
        write_text(name);
        write(each);
      }
      text_ += 'u';
    } else if (value.is_array()) {
      text_ += "](";
      for (const Json& each : value) write(each);
      text_ += 'e';
    } else if (value.is_string()) {
      write_text(value.get<std::string>());
    } else if (value.is_boolean()) {
      text_ += value.get<bool>() ? '\x88' : '\x89';
    } else if (value.is_null()) {
      text_ += 'N';
    } else {
      text_ += "\x8a\x08";
      write_number(static_cast<std::uint64_t>(value.get<std::int64_t>()), 8);
    }
  }

  void write_text(const std::string& text) {
    if (const auto known = places_.find(text); known != places_.end()) {
      text_ += 'j';
      return write_number(known->second, 4);
    }
    text_ += 'X';
    write_number(text.size(), 4);
    text_ += text + 'r';
    write_number(places_.size(), 4);
    places_.emplace(text, places_.size());
  }

  void write_number(std::uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(number >> (8 * i) & 0xff);
  }

  std::string text_;
  std::map<std::string, std::size_t> places_;
};

}  // namespace lockstep::comm::testing_pickle
