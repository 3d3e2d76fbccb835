// Result<T>: a value or the reason why there is none. Lockstep throws no exceptions. The method
// names are those of std::expected (C++23).
//
//   lockstep::Result<int> ranks();
//   if (auto n = ranks(); n) use(*n); else log(n.error().message);
#pragma once

#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

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

constexpr std::string_view text(Code code) {
  switch (code) {
    case Code::invalid:
      return "invalid";
    case Code::not_found:
      return "not_found";
    case Code::already_exists:
      return "already_exists";
    case Code::denied:
      return "denied";
    case Code::unavailable:
      return "unavailable";
    case Code::timeout:
      return "timeout";
    case Code::peer_lost:
      return "peer_lost";
    case Code::corrupt:
      return "corrupt";
    case Code::exhausted:
      return "exhausted";
    case Code::cancelled:
      return "cancelled";
    case Code::internal:
      return "internal";
  }
  return "internal";
}

// message says what was tried, on what, and what to do next; one line.
struct [[nodiscard]] Error {
  Code code = Code::internal;
  std::string message;

  // The same error with context from one level up: "reading run.yaml: no such file".
  Error with_context(std::string_view what) && {
    return {code, std::string(what).append(": ").append(message)};
  }
};

namespace result_detail {

// A caller asked a result for what it does not have: a bug of the caller.
[[noreturn]] inline void abort_without_value(const Error& error) {
  std::fprintf(stderr, "lockstep: value() of a failed result: %s\n", error.message.c_str());
  std::abort();
}
[[noreturn]] inline void abort_without_error() {
  std::fputs("lockstep: error() of a result that has a value\n", stderr);
  std::abort();
}

}  // namespace result_detail

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
  // By value, so that `for (auto& x : f().value().list)` does not read a dead temporary.
  T value() && { return checked(), std::move(value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
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
    if (!has_value()) result_detail::abort_without_value(error_);
  }
  void failed() const {
    if (has_value()) result_detail::abort_without_error();
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
    if (error_) result_detail::abort_without_value(*error_);
  }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

// LOCKSTEP_TRY(expression): the value, or return its error from this function, which returns a
// Result. A GNU extension: for g++ and clang.
#define LOCKSTEP_TRY(...) \
  LOCKSTEP_TRY_AS_(LOCKSTEP_TRY_NAME_(try_result_, __COUNTER__), __VA_ARGS__)
// Each use gets a unique name, so that one LOCKSTEP_TRY may be nested in another.
#define LOCKSTEP_TRY_NAME_(prefix, number) LOCKSTEP_TRY_JOIN_(prefix, number)
#define LOCKSTEP_TRY_JOIN_(prefix, number) prefix##number
#define LOCKSTEP_TRY_AS_(result, ...)                                             \
  ({                                                                              \
    auto&& result = (__VA_ARGS__);                                                \
    if (!result.has_value()) return ::lockstep::Error(std::move(result).error()); \
    std::move(result).value();                                                    \
  })

}  // namespace lockstep
