// Status and Result<T>: how every module reports failure.
//
// No exception leaves a module and none crosses the C API, so a failure is a value: a code for programs and one line
// for people. The line names the thing that is wrong and what to do about it; it never ends in a full stop or a
// newline.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace hone {

enum class Code {
  kOk = 0,
  kInvalidArgument,  // the caller's input is wrong; the message says where
  kUnsupported,      // legal input that this build, ISA or op cannot do; the message says why
  kNotFound,
  kFailedPrecondition,  // right call, wrong moment (closed, read-only)
  kResourceExhausted,   // memory, disk, executable memory
  kUnavailable,         // busy; may succeed later
  kDataLoss,            // corrupt file
  kInternal,            // a bug of ours
};

// Stable lower-case name, for logs and the C API ("invalid_argument").
[[gnu::visibility("default")]] std::string_view code_name(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // "invalid_argument: m must be ..." or "ok".
  [[gnu::visibility("default")]] std::string to_string() const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status invalid_argument(std::string m) { return {Code::kInvalidArgument, std::move(m)}; }
inline Status unsupported(std::string m) { return {Code::kUnsupported, std::move(m)}; }
inline Status not_found(std::string m) { return {Code::kNotFound, std::move(m)}; }
inline Status failed_precondition(std::string m) { return {Code::kFailedPrecondition, std::move(m)}; }
inline Status resource_exhausted(std::string m) { return {Code::kResourceExhausted, std::move(m)}; }
inline Status unavailable(std::string m) { return {Code::kUnavailable, std::move(m)}; }
inline Status data_loss(std::string m) { return {Code::kDataLoss, std::move(m)}; }
inline Status internal_error(std::string m) { return {Code::kInternal, std::move(m)}; }

// A value or the Status that explains its absence. Reading the value of a failed Result is a bug (it terminates).
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return value_.value(); }
  const T& value() const& { return value_.value(); }
  T&& value() && { return std::move(value_).value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace hone
