// Result<T>: a value or the reason why there is none. For failures of the environment (files,
// networks, users); our own bugs are LS_CHECK. The method names are those of std::expected (C++23).
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace lockstep {

// The kind of failure, for code that reacts to it; the message is for people.
enum class Code {
  invalid,         // the request itself is wrong; trying again does not help
  not_found,       // the thing named does not exist
  already_exists,  // the thing to create is there already
  denied,          // not allowed: no token, wrong secret, stale epoch
  unavailable,     // not now: try again later
  timeout,         // a bound on a wait was reached
  peer_lost,       // another process of the run died
  corrupt,         // stored or received bytes are not what was written
  exhausted,       // no space, no port, no device left
  cancelled,       // the end was requested
  internal,        // a library failed in a way we did not foresee
};

std::string_view text(Code code);

// message says what was tried, on what, and what to do next; one line.
struct [[nodiscard]] Error {
  Code code = Code::internal;
  std::string message;

  // The same error with context from one level up: "reading run.yaml: no such file".
  Error with_context(std::string_view what) &&;
};

// "No such file or directory" for ENOENT. Thread-safe.
std::string errno_text(int errno_value);

// An error of the operating system: "opening /x: No such file or directory". Chooses the code.
Error os_error(std::string_view what, int errno_value);

// Not std::variant, which takes several times longer to compile, and there are hundreds of these.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : has_value_(true), value_(std::move(value)) {}
  Result(Error error) : has_value_(false), error_(std::move(error)) {}
  Result(Result&& other) noexcept : has_value_(other.has_value_) {
    construct_from(std::move(other));
  }
  Result(const Result& other)
    requires std::copy_constructible<T>
      : has_value_(other.has_value_) {
    construct_from(other);
  }
  Result& operator=(Result&& other) noexcept {
    if (this != &other) assign_from(std::move(other));
    return *this;
  }
  Result& operator=(const Result& other)
    requires std::copy_constructible<T>
  {
    if (this != &other) assign_from(other);
    return *this;
  }
  ~Result() { destroy(); }

  bool has_value() const { return has_value_; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return checked(), value_; }
  const T& value() const& { return checked(), value_; }
  T&& value() && { return checked(), std::move(value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  template <class U>
  T value_or(U&& other) && {
    return has_value() ? std::move(value_) : static_cast<T>(std::forward<U>(other));
  }

  const Error& error() const& { return failed(), error_; }
  Error&& error() && { return failed(), std::move(error_); }

 private:
  void checked() const {
    if (!has_value()) check_failed("result has a value", error_.message);
  }
  void failed() const {
    if (has_value()) check_failed("result has an error", "");
  }
  template <class Other>
  void construct_from(Other&& other) {
    if (has_value_)
      std::construct_at(&value_, std::forward<Other>(other).value_);
    else
      std::construct_at(&error_, std::forward<Other>(other).error_);
  }
  template <class Other>
  void assign_from(Other&& other) {
    destroy();
    has_value_ = other.has_value_;
    construct_from(std::forward<Other>(other));
  }
  void destroy() {
    if (has_value_)
      value_.~T();
    else
      error_.~Error();
  }

  bool has_value_;
  union {
    T value_;
    Error error_;
  };
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const { return !error_; }
  explicit operator bool() const { return has_value(); }
  void value() const {
    if (error_) check_failed("result has a value", error_->message);
  }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

// TRY(expression): the value, or return its error from this function. Not around co_await, on which
// g++ 12 crashes: await into a variable first, then TRY(std::move(variable)).
#define TRY(...) LS_TRY_AS_(LS_TRY_NAME_(try_result_, __COUNTER__), __VA_ARGS__)
// Each use gets a unique name, so that one TRY may be nested in another.
#define LS_TRY_NAME_(prefix, number) LS_TRY_JOIN_(prefix, number)
#define LS_TRY_JOIN_(prefix, number) prefix##number
#define LS_TRY_AS_(result, ...)                                                   \
  ({                                                                              \
    auto&& result = (__VA_ARGS__);                                                \
    if (!result.has_value()) return ::lockstep::Error(std::move(result).error()); \
    std::move(result).value();                                                    \
  })

}  // namespace lockstep
