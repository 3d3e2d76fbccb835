// SecretMask: replaces the values of a run's secrets in what a rank prints.
//
// It works on bytes, because the reads of a pipe end anywhere, also in the middle of a value. Bytes
// at the end that may begin a value are held back until the next bytes decide. A value is matched
// exactly: a program that prints it in another form, such as base64, shows it.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::agent {

class SecretMask {
 public:
  // Values of less than this, without the blanks and line ends around them, are not replaced: they
  // would hide parts of other words.
  static constexpr std::size_t kValueMin = 8;

  SecretMask() = default;
  explicit SecretMask(const std::vector<std::string>& values);

  // The bytes that are decided, with *** in place of values; valid until the next call.
  std::string_view pass(std::string_view bytes);
  // The bytes that were held back: no more come.
  std::string_view pass_rest();
  // A text that is complete.
  std::string masked(std::string_view text) const;

 private:
  struct Found {
    std::size_t value = 0;    // the length of the value that begins here; 0: none
    bool needs_more = false;  // a value may begin here, and the bytes end before it does
  };
  Found find_at(std::string_view bytes) const;
  // Appends to `out`; returns the number of bytes that are decided.
  std::size_t replace(std::string_view bytes, bool is_end, std::string& out) const;

  std::vector<std::string> values_;  // the longest first
  std::array<bool, 256> begins_{};   // some value begins with this byte
  std::string held_;
  std::string out_;
};

// The mask for these variables of an environment, and for further values.
SecretMask mask_of(const std::map<std::string, std::string>& environment,
                   const std::vector<std::string>& secret_variables,
                   std::vector<std::string> values = {});

}  // namespace lockstep::agent
